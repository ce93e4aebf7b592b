"""The layers that are not attention: dense, norms, embedding, feed-forward."""

import dataclasses
from collections.abc import Iterable, Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint

from specdec_jax.axes import constrain
from specdec_jax.models.lowering import Lowering, precision_of
from specdec_jax.typing import Array, Callable, Float, Float32, Int32

Initializer = Callable[..., Array]

# T5X's initializer of all kernels outside attention, with variance 1 / fan_in.
fan_in_init = nn.initializers.variance_scaling(1.0, "fan_in", "truncated_normal")


def padded(x: Array, rows: int, axis: int) -> Array:
    """The same with zeros behind it, if an axis is shorter than so many rows."""
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, max(0, rows - x.shape[axis]))
    return jnp.pad(x, widths) if widths[axis][1] else x


def product(
    x: Float[Array, "... D"],
    kernel: Float[Array, "D F"],
    out_dtype: jnp.dtype,
    lowering: Lowering,
    scale: Float32[Array, " F"] | None = None,
) -> Float[Array, "... F"]:
    """x @ kernel, of one dtype, its columns times the scales of a quantized kernel."""
    # Flat, since XLA on CPU transposes the gradients of a 3-d product by copying.
    flat = x.reshape(-1, x.shape[-1])
    rows = flat.shape[0]
    flat = jnp.dot(
        padded(flat, lowering.least_rows, axis=0),
        kernel,
        precision=precision_of(x.dtype),
        preferred_element_type=out_dtype if scale is None else jnp.float32,
    )
    if scale is not None:
        flat = (flat * scale[None]).astype(out_dtype)
    if lowering.row_major:
        flat = with_layout_constraint(flat, Layout((0, 1)))
    return flat[:rows].reshape(*x.shape[:-1], -1)


class Dense(nn.Module):
    """A product with one kernel: [..., D] -> [..., features]; a T5's has no bias.

    A kernel that was quantized (see `models.quantization`) has its scales beside it.
    """

    features: int
    dtype: jnp.dtype
    lowering: Lowering
    kernel_init: Initializer = fan_in_init
    out_dtype: jnp.dtype | None = None
    use_bias: bool = False

    @nn.compact
    def __call__(self, x: Float[Array, "... D"]) -> Float[Array, "... F"]:
        shape = (x.shape[-1], self.features)
        kernel = self.param("kernel", self.kernel_init, shape, jnp.float32)
        y = product(
            x.astype(self.dtype),
            kernel.astype(self.dtype),
            self.out_dtype or self.dtype,
            self.lowering,
            self.get_variable("params", "scale"),
        )
        if self.use_bias:
            shape = (self.features,)
            bias = self.param("bias", nn.initializers.zeros, shape, jnp.float32)
            y = y + jnp.expand_dims(bias.astype(y.dtype), range(y.ndim - 1))
        return y


@dataclasses.dataclass(frozen=True)
class DenseGroup:
    """Products of one input with several kernels of one module.

    Apart, each kernel has its own name, as in T5X. Packed (see
    `specdec_jax.models.packing`), they are one wide kernel named by all of them, so
    that a small decoding step makes one large product in place of several small ones.

    Attributes:
      names: of the kernels.
      features: F, the width of each product.
      lowering: whether, and for how many devices, they are packed.
      use_bias: whether each has a bias, which is packed as the kernels are.
    """

    names: tuple[str, ...]
    features: int
    lowering: Lowering
    use_bias: bool = False

    @property
    def packed(self) -> bool:
        return self.lowering.packed > 0 and len(self.names) > 1

    def declare(
        self, module: nn.Module, dtype: jnp.dtype, inits: Mapping[str, Initializer] = {}
    ) -> None:
        """Gives the module its kernels; for use in `setup`."""
        names, features = self.names, self.features
        if self.packed:
            names, features = (packed_name(names),), features * len(names)
        for name in names:
            dense = Dense(
                features,
                dtype,
                self.lowering,
                inits.get(name, fan_in_init),
                use_bias=self.use_bias,
            )
            setattr(module, name, dense)

    def apply(self, module: nn.Module, x: Array) -> list[Array]:
        """[..., D] -> one array [..., features] for each kernel, in order."""
        if not self.packed:
            return [getattr(module, name)(x) for name in self.names]
        wide = getattr(module, packed_name(self.names))(x)
        parts = parts_of(self.features, self.lowering.packed)
        # Each device has its own columns of every kernel: nothing moves.
        by_part = wide.reshape(*x.shape[:-1], parts, -1)
        width = self.features // parts
        return [
            by_part[..., first : first + width].reshape(*x.shape[:-1], self.features)
            for first in range(0, width * len(self.names), width)
        ]


def parts_of(features: int, packed: int) -> int:
    """Parts that kernels of a width are packed in; 1 where devices do not divide it."""
    return packed if features % packed == 0 else 1


def packed_name(names: Iterable[str]) -> str:
    """The name of the one kernel that several were packed into."""
    return "_and_".join(names)


class RMSNorm(nn.Module):
    """T5's layer norm: x / rms(x) * scale, in float32, with no mean and no bias."""

    dtype: jnp.dtype
    epsilon: float = 1e-6

    @nn.compact
    def __call__(self, x: Float[Array, "... D"]) -> Float[Array, "... D"]:
        scale = self.param("scale", nn.initializers.ones, (x.shape[-1],), jnp.float32)
        x32 = x.astype(jnp.float32)
        mean_square = jnp.mean(jnp.square(x32), axis=-1, keepdims=True)
        normed = x32 * jax.lax.rsqrt(mean_square + self.epsilon)
        scale = jnp.expand_dims(scale.astype(jnp.float32), range(x.ndim - 1))
        return (normed * scale).astype(self.dtype)


class LayerNorm(nn.Module):
    """GPT's layer norm: (x - mean) / deviation * scale + bias, in float32."""

    dtype: jnp.dtype
    epsilon: float = 1e-5

    @nn.compact
    def __call__(self, x: Float[Array, "... D"]) -> Float[Array, "... D"]:
        shape, places = (x.shape[-1],), range(x.ndim - 1)
        scale = self.param("scale", nn.initializers.ones, shape, jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, shape, jnp.float32)
        centred = x.astype(jnp.float32)
        centred = centred - jnp.mean(centred, axis=-1, keepdims=True)
        variance = jnp.mean(jnp.square(centred), axis=-1, keepdims=True)
        normed = centred * jax.lax.rsqrt(variance + self.epsilon)
        scale = jnp.expand_dims(scale.astype(jnp.float32), places)
        bias = jnp.expand_dims(bias.astype(jnp.float32), places)
        return (normed * scale + bias).astype(self.dtype)


class Embed(nn.Module):
    """Embeddings of ids or places, looked up by gather; also tied logits."""

    num_embeddings: int
    features: int
    dtype: jnp.dtype
    lowering: Lowering
    deviation: float = 1.0  # of what it is drawn from

    def setup(self):
        self.embedding = self.param(
            "embedding",
            nn.initializers.normal(self.deviation),
            (self.num_embeddings, self.features),
            jnp.float32,
        )
        self.scale = self.get_variable("params", "scale")  # if it was quantized

    def __call__(self, tokens: Int32[Array, "B T"]) -> Float[Array, "B T D"]:
        tokens = constrain(tokens, "batch", "length")
        found = jnp.take(self.embedding, tokens, axis=0)
        if self.scale is not None:
            scale = jnp.take(self.scale, tokens, axis=0)[..., None]
            found = found.astype(scale.dtype) * scale
        return constrain(found.astype(self.dtype), "batch", "length", "embed")

    def attend(self, x: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        """Float32 logits of features against every embedding."""
        embedding = self.embedding.astype(self.dtype)
        out_dtype = jnp.dtype(jnp.float32)
        return product(x, embedding.T, out_dtype, self.lowering, self.scale)


class Dropout(nn.Module):
    """Dropout with one mask for all positions of a row, as T5X has it.

    Besides being T5X's habit it draws T times fewer random bits, which on a CPU would
    cost as much as the products.
    """

    rate: float

    @nn.compact
    def __call__(self, x: Array, deterministic: bool) -> Array:
        return nn.Dropout(self.rate, broadcast_dims=(-2,))(x, deterministic)


class FeedForward(nn.Module):
    """A layer's feed-forward, [B, T, D] to the same.

    T5's has gated tanh-GELU (v1.1) or ReLU (v1.0), and GPT's tanh-GELU and biases.
    """

    width: int
    hidden: int
    activations: tuple[str, ...]
    dropout_rate: float
    dtype: jnp.dtype
    lowering: Lowering = Lowering()
    use_bias: bool = False

    def setup(self):
        gated = len(self.activations) > 1
        names = ("wi_0", "wi_1") if gated else ("wi",)
        self.inner = DenseGroup(names, self.hidden, self.lowering, self.use_bias)
        self.inner.declare(self, self.dtype)
        self.wo = Dense(self.width, self.dtype, self.lowering, use_bias=self.use_bias)
        self.dropout = Dropout(self.dropout_rate)

    def __call__(
        self, x: Float[Array, "B T D"], deterministic: bool
    ) -> Float[Array, "B T D"]:
        halves = self.inner.apply(self, x)
        h = ACTIVATIONS[self.activations[0]](halves[0])
        if len(halves) > 1:
            h = h * ACTIVATIONS[self.activations[1]](halves[1])
        h = constrain(h, "batch", "length", "mlp")
        h = self.wo(self.dropout(h, deterministic))
        return constrain(h, "batch", "length", "embed")


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": lambda x: nn.gelu(x, approximate=True),
    "relu": nn.relu,
    "linear": lambda x: x,
}
