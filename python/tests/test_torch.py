"""Tensors of torch, compared with the reference implementation; where torch is installed."""

import runpy
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream import _tensors
from millstream.safetensors import iter_tensors, load_file, safe_open

torch: Any = pytest.importorskip("torch")
reference: Any = pytest.importorskip("safetensors")
saver: Any = pytest.importorskip("safetensors.torch")


@pytest.fixture
def tensors() -> dict[str, Any]:
    torch.manual_seed(1)
    made = {
        "bf16": torch.randn(300, 400).to(torch.bfloat16),
        "fp8": torch.randn(64, 64).to(torch.float8_e4m3fn),
        "fp8b": torch.randn(64, 64).to(torch.float8_e5m2),
        "f32": torch.randn(1 << 20).reshape(2, 512, 1024),
        "bool": torch.randn(77) > 0,
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(5),
        "odd": torch.arange(13, dtype=torch.uint8),
        "complex": torch.randn(5, 6, dtype=torch.complex64),
    }
    return made


@pytest.fixture
def path(tmp_path: Path, tensors: dict[str, Any]) -> Path:
    path = tmp_path / "model.safetensors"
    saver.save_file(tensors, path)
    return path


def same(ours: Any, theirs: Any) -> None:
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    raw = [one.contiguous().reshape(-1).view(torch.uint8) for one in (ours, theirs)]
    assert torch.equal(*raw)


def test_the_same_tensors_as_the_reference(path: Path, storage: millstream.Storage) -> None:
    with (
        reference.safe_open(path, "pt") as theirs,
        safe_open(path, "pt", backend="mmap", storage=storage) as ours,
    ):
        ours.prefetch(["f32", ("f32", (0, slice(1, 4)))])
        for name in theirs.keys():
            same(ours.get_tensor(name), theirs.get_tensor(name))
        for index in ((0, slice(1, 4)), (..., slice(3, 900, 5)), (1, slice(None), 7), ...):
            same(ours.get_slice("f32")[index], theirs.get_slice("f32")[index])
        same(ours.get_slice("bf16")[:, 100:200], theirs.get_slice("bf16")[:, 100:200])
        same(ours.get_slice("fp8")[5:7], theirs.get_slice("fp8")[5:7])


def test_the_ring_of_torch(
    path: Path, tensors: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The processor as a device, whose slots are not pinned.
    device = _tensors.TorchDevice(torch, torch.device("cpu"))
    monkeypatch.setattr(_tensors, "target", lambda *_: device)
    for loaded in (load_file(path, device="x"), dict(iter_tensors(path, device="x"))):
        assert loaded.keys() == tensors.keys()
        for name, one in tensors.items():
            same(loaded[name], one)
    part = load_file(path, ["f32"], device="x", shards={"f32": (2, 1, 4)})["f32"]
    same(part, tensors["f32"][:, :, 256:512])


def test_a_device_without_memory(path: Path, tensors: dict[str, Any]) -> None:
    for name, one in load_file(path, device="meta").items():
        assert one.device.type == "meta"
        assert one.dtype == tensors[name].dtype and one.shape == tensors[name].shape


def test_cuda(path: Path, tensors: dict[str, Any]) -> None:
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA device here")
    for name, one in load_file(path, device="cuda").items():
        same(one.cpu(), tensors[name])


def test_models_of_transformers(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    example = Path(__file__).parent.parent / "examples" / "transformers_model.py"
    runpy.run_path(str(example), run_name="__main__")
    assert "equal outputs" in capsys.readouterr().out
