"""Loads a small random model that transformers saved, and compares the outputs.

    pip install ./python torch transformers
    python python/examples/transformers_model.py

Once by `load_file` and once by transformers itself, which calls `safe_open` of this package in the
place of that of safetensors.
"""

import tempfile

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

import millstream.safetensors


def main() -> None:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=1000,
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=3,
        num_attention_heads=4,
        tie_word_embeddings=False,
    )
    saved = LlamaForCausalLM(config).eval()
    tokens = torch.randint(config.vocab_size, (2, 17))
    with tempfile.TemporaryDirectory() as folder:
        saved.save_pretrained(folder, max_shard_size="1MB")  # Several files and an index.
        tensors = millstream.safetensors.load_file(folder, device="cpu")
        by_hand = LlamaForCausalLM(config).eval()
        by_hand.load_state_dict(tensors, assign=True)
        transformers.modeling_utils.safe_open = millstream.safetensors.safe_open
        by_transformers = LlamaForCausalLM.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = saved(tokens).logits
        for loaded in (by_hand, by_transformers):
            assert torch.equal(loaded(tokens).logits, expected)
    print(f"{len(tensors)} tensors, equal outputs")


if __name__ == "__main__":
    main()
