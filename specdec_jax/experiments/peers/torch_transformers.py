"""PyTorch `transformers`: `generate`, plain, assisted, and with prompt lookup."""

import time
from collections.abc import Sequence

import torch
from transformers import T5ForConditionalGeneration

from specdec_jax.data.tokenizer import SpecialIds, Tokenizer
from specdec_jax.experiments.peers.catalogue import versions
from specdec_jax.experiments.peers.protocol import Decoded, PeerAbsent, Task
from specdec_jax.typing import Any

DRAFTS = (None, "assistant", "assistant_default", "lookup")


class TorchTransformers:
    """`T5ForConditionalGeneration.generate`, eager, float32, with its own cache."""

    def __init__(self, task: Task, drafts: str | None = None):
        """Loads the weights.

        Args:
          task: what to do.
          drafts: where draft tokens come from. None is plain decoding; "assistant" the
            drafter, gamma of them a block; "assistant_default" the drafter, with as
            many as the library settles on by itself; "lookup" the prompt, gamma of
            them.

        Raises:
          PeerAbsent: the assistant would have to be a network, and is none.
        """
        if drafts not in DRAFTS:
            raise ValueError(f"drafts must be one of {DRAFTS}, not {drafts!r}")
        if task.threads is not None:
            torch.set_num_threads(task.threads)
        self._device = "cuda" if task.platform == "gpu" else "cpu"
        target, drafter = task.huggingface
        self._model = self._load(target)
        self._calls = 0
        self._model.get_decoder().register_forward_pre_hook(self._count)
        self._ids = Tokenizer(task.tokenizer).special_ids
        options = _sampling(task, self._ids)
        if drafts == "lookup":
            options["prompt_lookup_num_tokens"] = task.gamma
        self.settings = {
            **options,
            "drafts": drafts,
            "device": self._device,
            "threads": torch.get_num_threads(),
        }
        if drafts in ("assistant", "assistant_default"):
            if drafter is None:
                raise PeerAbsent(f"an assistant is a network, not {task.drafter!r}")
            assistant = self._load(drafter)
            config = assistant.generation_config
            if drafts == "assistant":
                config.num_assistant_tokens = task.gamma
                config.num_assistant_tokens_schedule = "constant"
                config.assistant_confidence_threshold = 0.0
                self.settings["num_assistant_tokens"] = task.gamma
            options["assistant_model"] = assistant
        self._options = options
        self.versions = versions("torch", "transformers")

    def _load(self, folder: str) -> T5ForConditionalGeneration:
        model = T5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        # `generate` makes a cache for as many layers as this says, which is the
        # encoder's number; both stacks are built by now, from copies.
        model.config.num_layers = model.config.num_decoder_layers
        return model.eval().to(self._device)

    def _count(self, *_: Any) -> None:
        self._calls += 1

    def decode(self, tokens: Sequence[int], seed: int) -> Decoded:
        torch.manual_seed(seed)
        inputs = torch.tensor([list(tokens)], device=self._device)
        mask = torch.ones_like(inputs)
        self._calls = 0
        start = time.perf_counter()
        with torch.inference_mode():
            output = self._model.generate(inputs, attention_mask=mask, **self._options)
        ids = output[0, 1:].tolist()  # after the start token; waits for the device
        seconds = time.perf_counter() - start
        eos_id = self._ids.eos_id
        length = ids.index(eos_id) + 1 if eos_id in ids else len(ids)
        return Decoded(seconds, ids[:length], self._calls)


def _sampling(task: Task, special_ids: SpecialIds) -> dict[str, Any]:
    """What `generate` has to be told to draw from the whole vocabulary."""
    options = {
        "max_new_tokens": task.max_new_tokens,
        "num_beams": 1,
        "eos_token_id": special_ids.eos_id,
        "pad_token_id": special_ids.pad_id,
        "decoder_start_token_id": special_ids.start_id,
        "do_sample": task.temperature > 0,
    }
    if task.temperature > 0:
        options |= {"temperature": task.temperature, "top_k": 0, "top_p": 1.0}
    return options
