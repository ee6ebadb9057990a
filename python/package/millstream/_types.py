"""Element types of safetensors files, in numpy and torch."""

import importlib
from functools import lru_cache
from typing import Any

import numpy as np

_NUMPY: dict[str, Any] = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "I8": np.int8,
    "U16": np.uint16,
    "I16": np.int16,
    "F16": np.float16,
    "U32": np.uint32,
    "I32": np.int32,
    "F32": np.float32,
    "U64": np.uint64,
    "I64": np.int64,
    "F64": np.float64,
    "C64": np.complex64,
}

# Types of the package ml_dtypes, and what stands for them where it is not installed.
_ML: dict[str, tuple[str, Any]] = {
    "BF16": ("bfloat16", np.uint16),
    "F8_E4M3": ("float8_e4m3fn", np.uint8),
    "F8_E5M2": ("float8_e5m2", np.uint8),
    "F8_E8M0": ("float8_e8m0fnu", np.uint8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", np.uint8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", np.uint8),
}

_TORCH = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "F16": "float16",
    "U32": "uint32",
    "I32": "int32",
    "F32": "float32",
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
    "C64": "complex64",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}


@lru_cache
def numpy_type(name: str) -> Any:
    """The numpy type of a safetensors type; None for those of less than a byte."""
    if name in _NUMPY:
        return np.dtype(_NUMPY[name])
    if name not in _ML:
        return None
    word, instead = _ML[name]
    try:
        return np.dtype(getattr(importlib.import_module("ml_dtypes"), word))
    except (ImportError, AttributeError):
        return np.dtype(instead)


@lru_cache
def torch_type(name: str) -> Any:
    """The torch type of a safetensors type; None if this torch has none."""
    return getattr(importlib.import_module("torch"), _TORCH.get(name, ""), None)
