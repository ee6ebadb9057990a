"""Runs a made-up mixture-of-experts model from disk: memory holds a quarter of its experts.

    pip install ./python numpy
    python python/examples/experts.py

Each layer wants the experts that its router chose, then guesses those of the next layer, which are
read while it multiplies. What was guessed wrongly is withdrawn. Prints for each token how long it
took, and how much of that the layers waited for experts.
"""

import os
import tempfile
import time

import numpy as np

import millstream

LAYERS, EXPERTS, TOP, TOKENS, RIGHT = 8, 32, 4, 16, 0.7
WIDTH = 512
BYTES = WIDTH * WIDTH * 2


def choose(random: np.random.Generator, layer: int, chosen: list[int]) -> list[int]:
    """Distinct experts of a layer, the first ones more often, as routers do."""
    while len(chosen) < TOP:
        key = layer * EXPERTS + int(random.integers(1 + random.integers(EXPERTS)))
        if key not in chosen:
            chosen.append(key)
    return chosen


def token(cache: millstream.ExpertCache, random: np.random.Generator, state: np.ndarray) -> None:
    """Runs all layers on a state, which they change."""
    needed, guessed = choose(random, 0, []), list[int]()
    for layer in range(LAYERS):
        cache.want(needed, deadline=0.002)
        cache.withdraw([key for key in guessed if key not in needed])
        following = choose(random, layer + 1, [])
        if layer + 1 < LAYERS:
            # What the predictor gets right, and others in place of the rest.
            right = [key for key in following if random.random() < RIGHT]
            guessed = choose(random, layer + 1, right)
            cache.guess(guessed)
        total = np.zeros_like(state)
        for key in needed:
            (weights,) = cache.wait(key)
            matrix = np.frombuffer(weights, np.float16).reshape(WIDTH, WIDTH)
            total += matrix.astype(np.float32) @ state
            # Held no longer than needed: its slot may be used again.
            del matrix, weights
        state[:] = total / (np.abs(total).max() + 1e-9)
        needed = following


def main() -> None:
    random = np.random.default_rng(1)
    with tempfile.NamedTemporaryFile(suffix=".weights") as file:
        for _layer in range(LAYERS):
            layer = random.standard_normal((EXPERTS, WIDTH, WIDTH), np.float32)
            file.write(layer.astype(np.float16).tobytes())
        file.flush()
        os.fsync(file.fileno())
        experts = [[(0, key * BYTES, BYTES)] for key in range(LAYERS * EXPERTS)]
        cache = millstream.ExpertCache([file.name], experts, len(experts) // 4)
        state = random.standard_normal(WIDTH).astype(np.float32)
        stalled = 0.0
        for nth in range(TOKENS):
            begun = time.perf_counter()
            token(cache, random, state)
            stall = cache.stats()["stall"]
            spent = time.perf_counter() - begun
            print(f"token {nth}: {spent * 1e3:.1f} ms, waited {(stall - stalled) * 1e3:.1f}")
            stalled = stall
        stats = cache.stats()
        print(f"{stats['hits']} hits, {stats['misses']} misses, {stats['promotions']} promotions")


if __name__ == "__main__":
    main()
