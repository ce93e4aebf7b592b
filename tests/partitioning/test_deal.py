"""Batches that the axis `data` does not divide are filled up, or refused."""

import numpy as np
import pytest
from jax.sharding import AbstractMesh

from specdec_jax.decoding.autoregressive import Autoregressive
from specdec_jax.partitioning.loops import Partition
from tests import toy_models as toys

PARTITION = Partition(AbstractMesh((4, 2), ("data", "model")))


def test_a_batch_is_filled_up_to_a_multiple_of_the_axis():
    batches = np.arange(1, 10)
    padded = [PARTITION.padded(int(batch)) for batch in batches]
    assert padded == [4, 4, 4, 4, 8, 8, 8, 8, 12]


def test_a_batch_that_was_not_filled_up_is_refused():
    decoder = PARTITION.decoder(Autoregressive(toys.table_model(5), 3, toys.EOS))
    params = toys.table_params(toys.random_table(0, 5))
    with pytest.raises(ValueError, match="3 rows cannot be sharded .*'data': 4"):
        decoder.init(params, toys.no_inputs(3, 5), toys.start_prompt(3))
