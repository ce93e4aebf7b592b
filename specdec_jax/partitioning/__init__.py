"""One decode over many devices: the mesh, who holds what, and the loop under it."""
