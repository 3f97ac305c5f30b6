import pytest
import torch
from torch import Tensor

from rtc_server.engine.personaplex import matrix
from rtc_server.engine.personaplex.matrix import Form, Matrix, activation_dtype, form_of

OUT, IN = 96, 64
FULL = (torch.float32, torch.bfloat16, torch.float16)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def weight(dtype: torch.dtype = torch.float32) -> Tensor:
    return random(OUT, IN, seed=1).div_(IN**0.5).to(dtype)


def error(got: Tensor, expected: Tensor) -> float:
    """Largest, as a share of the largest expected value."""
    return float((got - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("dtype", FULL)
@pytest.mark.parametrize(("rows", "fewest"), [(1, 1), (4, 1), (2, 2), (8, 2), (128, 64)])
@pytest.mark.parametrize("n", [1, 3, 40])
def test_any_form_serves_any_number_of_rows(dtype: torch.dtype, rows: int, fewest: int, n: int) -> None:
    w, x, residual = weight(dtype), random(n, IN), random(n, OUT, seed=2)
    product = Matrix(w.clone(), rows, fewest=fewest)
    expected = x @ w.float().t()
    tolerance = 1e-5 if dtype == torch.float32 else 1e-2
    assert product(x).dtype == product.add(x, residual).dtype == torch.float32
    assert error(product(x), expected) < tolerance
    assert error(product.add(x, residual), residual + expected) < tolerance


@pytest.mark.parametrize("n", [1, 4, matrix.INT8_ROWS, matrix.INT8_ROWS + 1, 200])
@pytest.mark.parametrize("dtype", FULL)
def test_int8_stays_within_a_few_hundredths(dtype: torch.dtype, n: int) -> None:
    w, x, residual = weight(dtype), random(n, IN), random(n, OUT, seed=2)
    product = Matrix(w.clone(), n, bits=8)
    expected = x @ w.float().t()
    assert error(product(x), expected) < 0.02
    assert error(product.add(x, residual), residual + expected) < 0.02
    assert (product(x) - expected).square().mean().sqrt() < 0.012 * expected.square().mean().sqrt()


@pytest.mark.parametrize("dtype", FULL)
@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("fewest", [1, 8])
def test_a_product_is_written_into_a_part_of_something_larger(dtype: torch.dtype, bits: int, fewest: int) -> None:
    product, x = Matrix(weight(dtype), 8, fewest=fewest, bits=bits), random(8, IN)
    memory = torch.zeros(8, 3, OUT)
    product(x, memory[:, 1])
    assert torch.equal(memory[:, 1], product(x))
    assert not memory[:, 0].any() and not memory[:, 2].any()


@pytest.mark.parametrize("into", [88, 44, 7])
def test_int8_of_any_width_is_a_product_too(into: int) -> None:
    w, x = random(OUT, into, seed=1), random(3, into)
    assert error(Matrix(w.clone(), 3, bits=8)(x), x @ w.t()) < 0.03


def test_int8_is_as_fine_for_a_small_output_as_for_a_large_one() -> None:
    w, x = weight(), random(4, IN)
    w[3] *= 1e-6
    expected = x @ w.t()
    assert error(Matrix(w.clone(), 4, bits=8)(x)[:, 3], expected[:, 3]) < 0.02


def test_int8_of_zeros_is_zero() -> None:
    w = weight()
    w[5] = 0
    assert not Matrix(w, 1, bits=8)(random(3, IN))[:, 5].any()


def test_the_residual_and_the_input_are_left_alone() -> None:
    for dtype, bits in ((torch.float32, 16), (torch.bfloat16, 16), (torch.float32, 8)):
        x, residual = random(4, IN), random(4, OUT)
        Matrix(weight(dtype), 4, fewest=2, bits=bits).add(x, residual)
        assert torch.equal(x, random(4, IN)) and torch.equal(residual, random(4, OUT))


def test_a_strided_input_is_as_good_as_another() -> None:
    wide = random(3, 2 * IN)
    half = wide.chunk(2, 1)[1]
    for dtype in (torch.float32, torch.bfloat16):
        product = Matrix(weight(dtype), 8, fewest=2)
        assert torch.allclose(product(half), product(half.contiguous()))


def test_bytes_are_those_of_the_numbers_kept() -> None:
    assert Matrix(weight(), 1).nbytes == 4 * OUT * IN
    assert Matrix(weight(torch.bfloat16), 4).nbytes == 2 * OUT * IN
    assert Matrix(weight(), 1, bits=8).nbytes == OUT * IN + 2 * OUT


def test_one_row_stays_cheap_however_many_there_is_room_for() -> None:
    assert form_of(weight(), 1) is form_of(weight(), 16) is Form.TRANSPOSED


def test_packing_pays_for_very_large_matrices_and_where_all_calls_have_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "can_pack", lambda dtype: True)
    large = torch.empty(matrix.VERY_LARGE // IN, IN)
    assert form_of(large, 1) is Form.TRANSPOSED
    assert form_of(large, 4) is Form.PACKED
    assert form_of(weight(), 2, fewest=2) is Form.AS_STORED
    assert form_of(weight(), 8, fewest=2) is Form.PACKED
    assert form_of(weight(), 960, fewest=480) is Form.TRANSPOSED
    assert form_of(weight(torch.bfloat16), 1) is Form.PACKED


def test_without_onednn_everything_works_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "can_pack", lambda dtype: False)
    assert form_of(weight(torch.bfloat16), 8, fewest=2) is Form.AS_STORED
    assert form_of(weight(), 8, fewest=2) is Form.AS_STORED
    assert form_of(weight(), 8) is Form.TRANSPOSED
    x = random(2, IN)
    assert error(Matrix(weight(torch.bfloat16), 8)(x), x @ weight().t()) < 1e-2


def test_a_gpu_takes_weights_as_they_are() -> None:
    assert form_of(torch.empty(OUT, IN, device="meta"), 8) is Form.AS_STORED


def test_activations_are_float32_on_a_cpu_and_the_weights_type_on_a_gpu() -> None:
    assert activation_dtype("cpu", torch.bfloat16) == torch.float32
    assert activation_dtype("cuda", torch.bfloat16) == torch.bfloat16
    assert activation_dtype(torch.device("cuda", 1), torch.float32) == torch.float32
