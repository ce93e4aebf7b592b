"""The version of the package, for records and packaging."""

__version__ = "0.2.0"
