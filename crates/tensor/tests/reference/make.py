"""Writes what PyTorch computes, for the tests in `tests/torch` to compare with.

    python make.py

needs PyTorch (CPU) and NumPy, and overwrites the `.npz` files beside this script. The seed is fixed. An array
`case.name` is an input or a result of a case; the test of the same name says which.
"""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

FOLDER = Path(__file__).parent
NAN, INF = float("nan"), float("inf")


def save(file, **cases):
    arrays = {}
    for case, values in cases.items():
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                value = value.detach().contiguous().numpy()
            arrays[f"{case}.{name}"] = np.asarray(value)
    np.savez_compressed(FOLDER / f"{file}.npz", **arrays)


def normalisation():
    x = torch.randn(4, 5, 6)
    cases = {
        f"renorm_{name}": dict(x=x, y=torch.renorm(x, p, dim, most))
        for name, p, dim, most in [
            ("two", 2.0, 0, 4.0),
            ("one", 1.0, 1, 12.0),
            ("half", 0.5, 2, 300.0),
            ("infinite", INF, 1, 1.5),
        ]
    }
    strange = x.clone()
    strange[0, 0, 0], strange[1, 0, 0] = NAN, INF
    cases["renorm_strange"] = dict(x=strange, y=torch.renorm(strange, 2.0, 0, 3.0))

    image = torch.randn(2, 6, 5, 3)
    scale, bias = torch.randn(6), torch.randn(6)
    mean, variance = torch.randn(6), torch.rand(6) + 0.1
    channels = dict(x=image, scale=scale, bias=bias)
    cases["group_norm"] = dict(channels, y=F.group_norm(image, 3, scale, bias, 1e-4))
    cases["group_norm_plain"] = dict(x=image, y=F.group_norm(image, 2, eps=1e-3))
    cases["instance_norm"] = dict(
        channels, y=F.instance_norm(image, weight=scale, bias=bias, eps=1e-5)
    )
    cases["batch_norm"] = dict(
        channels,
        mean=mean,
        variance=variance,
        y=F.batch_norm(image, mean, variance, scale, bias, eps=1e-5),
    )
    cases["local_response_norm"] = dict(
        x=image, y=F.local_response_norm(image, 3, alpha=0.3, beta=0.6, k=1.5)
    )
    cases["local_response_norm_wide"] = dict(
        x=image, y=F.local_response_norm(image, 15, alpha=0.3, beta=0.6, k=1.5)
    )
    weight = torch.randn(5, 3)
    cases["layer_norm"] = dict(
        x=image, scale=weight, y=F.layer_norm(image, (5, 3), weight, eps=1e-5)
    )
    last = torch.randn(3)
    cases["rms_norm"] = dict(x=image, scale=last, y=F.rms_norm(image, (3,), last, eps=1e-5))
    cases["normalize"] = dict(x=image, y=F.normalize(image, 3.0, 2, 1e-12))
    save("norm", **cases)


def attention():
    query, key, value = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 6)
    given = dict(query=query, key=key, value=value)
    mask = torch.rand(2, 1, 5, 7) > 0.4
    mask[..., 0] = True
    blocked = mask.clone()
    blocked[0, 0, 2] = False
    added = torch.randn(5, 7)
    attend = F.scaled_dot_product_attention
    few = dict(key=key[:, :2].contiguous(), value=value[:, :2].contiguous())
    cases = dict(
        plain=dict(given, y=attend(query, key, value)),
        causal=dict(given, y=attend(query, key, value, is_causal=True)),
        scaled=dict(given, y=attend(query, key, value, scale=0.3)),
        masked=dict(given, mask=mask, y=attend(query, key, value, mask)),
        blocked=dict(given, mask=blocked, y=attend(query, key, value, blocked)),
        added=dict(given, mask=added, y=attend(query, key, value, added)),
        grouped=dict(
            few, query=query, y=attend(query, few["key"], few["value"], enable_gqa=True)
        ),
    )
    layer = torch.nn.MultiheadAttention(12, 3, batch_first=True)
    for bias in (layer.in_proj_bias, layer.out_proj.bias):
        torch.nn.init.normal_(bias)
    x = torch.randn(2, 6, 12)
    later = torch.triu(torch.ones(6, 6, dtype=torch.bool), 1)
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[1, 4:] = True
    weights = dict(
        x=x,
        packed=layer.in_proj_weight,
        packed_bias=layer.in_proj_bias,
        projection=layer.out_proj.weight,
        projection_bias=layer.out_proj.bias,
    )
    run = lambda **options: layer(x, x, x, need_weights=False, **options)[0]
    cases["layer"] = dict(weights, y=run())
    cases["layer_causal"] = dict(weights, y=run(attn_mask=later, is_causal=True))
    cases["layer_padded"] = dict(weights, attends=~padding, y=run(key_padding_mask=padding))
    save("attention", **cases)


def recurrent():
    """Weights in the order of gates that PyTorch has: `tests/torch/recurrent.rs` brings them into ours."""
    cases = {}
    x = torch.randn(5, 3, 4)
    for name, layer in [
        ("lstm", torch.nn.LSTM(4, 6)),
        ("lstm_both", torch.nn.LSTM(4, 6, bidirectional=True)),
        ("gru", torch.nn.GRU(4, 6)),
        ("gru_both", torch.nn.GRU(4, 6, bidirectional=True)),
        ("tanh", torch.nn.RNN(4, 6)),
        ("relu", torch.nn.RNN(4, 6, nonlinearity="relu", bidirectional=True)),
    ]:
        directions = 2 if layer.bidirectional else 1
        hidden, cell = torch.randn(directions, 3, 6), torch.randn(directions, 3, 6)
        is_lstm = isinstance(layer, torch.nn.LSTM)
        states, last = layer(x, (hidden, cell) if is_lstm else hidden)
        together = lambda what: torch.stack(
            [getattr(layer, f"{what}_l0{suffix}") for suffix in ["", "_reverse"][:directions]]
        )
        case = dict(
            x=x,
            input=together("weight_ih"),
            recurrent=together("weight_hh"),
            bias=torch.cat([together("bias_ih"), together("bias_hh")], 1),
            first_hidden=hidden,
            states=states,
        )
        if is_lstm:
            case.update(first_cell=cell, last_hidden=last[0], last_cell=last[1])
        else:
            case.update(last_hidden=last)
        cases[name] = case
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, [5, 2, 4], enforce_sorted=False)
    layer = torch.nn.GRU(4, 6, bidirectional=True)
    states, last = layer(packed)
    states, _ = torch.nn.utils.rnn.pad_packed_sequence(states)
    cases["lengths"] = dict(
        x=x,
        lengths=np.array([5, 2, 4], np.int32),
        input=torch.stack([layer.weight_ih_l0, layer.weight_ih_l0_reverse]),
        recurrent=torch.stack([layer.weight_hh_l0, layer.weight_hh_l0_reverse]),
        bias=torch.stack(
            [
                torch.cat([layer.bias_ih_l0, layer.bias_hh_l0]),
                torch.cat([layer.bias_ih_l0_reverse, layer.bias_hh_l0_reverse]),
            ]
        ),
        states=states,
        last_hidden=last,
    )
    save("recurrent", **cases)


def foreach():
    shapes = [(3,), (2, 3), (), (0, 2), (1, 2, 2), (17,)]
    x, y, z = ([torch.randn(shape) for shape in shapes] for _ in range(3))
    results = dict(
        add=torch._foreach_add(x, y, alpha=0.5),
        add_scalar=torch._foreach_add(x, 1.25),
        mul=torch._foreach_mul(x, y),
        lerp=torch._foreach_lerp(x, y, 0.3),
        addcmul=torch._foreach_addcmul(x, y, z, 0.7),
    )
    numbered = lambda tensors: {str(number): tensor for number, tensor in enumerate(tensors)}
    lists = dict(x=x, y=y, z=z, **results)
    save("foreach", **{name: numbered(tensors) for name, tensors in lists.items()})


def distributions():
    """Mean, variance, and the values below which a part `at` of all lies."""
    d = torch.distributions
    at = torch.tensor([0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99], dtype=torch.float64)
    double = lambda *values: [torch.tensor(value, dtype=torch.float64) for value in values]

    def moments(distribution):
        case = dict(mean=distribution.mean, variance=distribution.variance, at=at)
        try:
            case["quantiles"] = distribution.icdf(at)
        except NotImplementedError:
            # The gamma distribution: its function bisected.
            low, high = torch.zeros_like(at), torch.full_like(at, 1e3)
            for _ in range(200):
                middle = (low + high) / 2
                below = distribution.cdf(middle) < at
                low, high = torch.where(below, middle, low), torch.where(below, high, middle)
            case["quantiles"] = low
        return case

    save(
        "distributions",
        uniform=moments(d.Uniform(*double(-2.0, 3.0))),
        normal=moments(d.Normal(*double(1.5, 0.5))),
        exponential=moments(d.Exponential(*double(2.5))),
        gamma_small=moments(d.Gamma(*double(0.4, 1.0))),
        gamma_large=moments(d.Gamma(*double(7.5, 0.5))),
    )


def linear_algebra():
    double = torch.float64
    a = torch.randn(2, 6, 6, dtype=double)
    rhs = torch.randn(2, 6, 3, dtype=double)
    wide, tall = torch.randn(4, 7, dtype=double), torch.randn(7, 4, dtype=double)
    positive = a @ a.mT + torch.eye(6, dtype=double)
    single = torch.randn(3, 20, 20)

    def factored(matrix):
        factors, pivots = torch.linalg.lu_factor(matrix)
        # LAPACK counts rows from 1.
        return dict(x=matrix, factors=factors, pivots=pivots - 1)

    triangular = {
        f"triangular_{'upper' if upper else 'lower'}{'_unit' if unit else ''}": dict(
            x=a,
            rhs=rhs,
            y=torch.linalg.solve_triangular(a, rhs, upper=upper, unitriangular=unit),
        )
        for upper in (False, True)
        for unit in (False, True)
    }
    save(
        "linalg",
        lu=factored(a),
        lu_wide=factored(wide),
        lu_tall=factored(tall),
        lu_solve=dict(x=a, rhs=rhs, y=torch.linalg.solve(a, rhs)),
        solve_single=dict(x=single, rhs=single[:, :, :5].flip(1), y=torch.linalg.solve(single, single[:, :, :5].flip(1))),
        cholesky=dict(x=positive, y=torch.linalg.cholesky(positive)),
        inverse=dict(x=a, y=torch.linalg.inv(a)),
        det=dict(x=a, y=torch.linalg.det(a)),
        **triangular,
    )


def order():
    x = torch.randn(4, 9)
    x[0, 3], x[1, 2], x[1, 5], x[2, 0] = NAN, INF, -INF, -NAN
    x[3, 4] = x[3, 6] = x[3, 1]
    whole = torch.randint(-5, 6, (3, 11))
    clean = torch.randn(4, 9)
    cases = {}
    for name, values in [("floats", x), ("integers", whole)]:
        for descending in (False, True):
            sorted_, indices = torch.sort(values, dim=1, descending=descending, stable=True)
            way = "falling" if descending else "rising"
            cases[f"sort_{name}_{way}"] = dict(x=values, values=sorted_, indices=indices)
    for largest in (False, True):
        values, indices = torch.topk(x[:3], 4, 1, largest)
        cases[f"topk_{'largest' if largest else 'smallest'}"] = dict(
            x=x[:3], values=values, indices=indices
        )
    cases["cumulative"] = dict(
        x=x,
        sum=torch.cumsum(x, 1),
        prod=torch.cumprod(x, 0),
        max=torch.cummax(x, 1)[0],
        min=torch.cummin(x, 1)[0],
    )
    cases["cumulative_integers"] = dict(
        x=whole, sum=torch.cumsum(whole, 0), prod=torch.cumprod(whole, 0), max=torch.cummax(whole, 1)[0]
    )
    cases["histogram"] = dict(x=clean, y=torch.histc(clean, 7, -1.0, 1.5).to(torch.int64))
    weights = torch.rand(4, 9)
    cases["weighted_histogram"] = dict(
        x=clean,
        weights=weights,
        y=torch.histogram(clean, 5, range=(-2.0, 2.0), weight=weights)[0],
    )
    counted = torch.randint(0, 8, (40,))
    cases["bincount"] = dict(x=counted, y=torch.bincount(counted, minlength=10))
    sparse = clean * (clean.abs() > 1)
    cases["nonzero"] = dict(x=sparse, y=torch.nonzero(sparse))
    cases["masked_select"] = dict(
        x=clean, mask=clean[0] > 0, y=torch.masked_select(clean, clean[0] > 0)
    )
    save("order", **cases)


def index():
    x = torch.randn(4, 5, 3)
    rows = torch.tensor([3, 0, 3, 1, 1, 2, 0])
    slices = torch.randn(4, 7, 3)
    places = torch.randint(0, 5, (3, 6, 2))
    updates = torch.randn(3, 6, 2)
    cases = dict(
        index_select=dict(x=x, indices=rows, y=torch.index_select(x, 1, rows)),
        index_add=dict(x=x, indices=rows, updates=slices, y=torch.index_add(x, 1, rows, slices)),
        take=dict(x=x, indices=places, y=torch.take(x, places)),
        gather=dict(x=x, indices=places, y=torch.gather(x, 1, places)),
        scatter_add=dict(
            x=x, indices=places, updates=updates, y=torch.scatter_add(x, 1, places, updates)
        ),
        embedding=dict(x=x[:, :, 0].contiguous(), indices=rows, y=F.embedding(rows, x[:, :, 0])),
    )
    for reduce, name in [("prod", "mul"), ("amin", "min"), ("amax", "max"), ("sum", "add")]:
        cases[f"scatter_{name}"] = dict(
            x=x, indices=places, updates=updates, y=torch.scatter_reduce(x, 1, places, updates, reduce)
        )
        if reduce != "sum":
            cases[f"index_{name}"] = dict(
                x=x, indices=rows, updates=slices, y=torch.index_reduce(x, 1, rows, slices, reduce)
            )
    save("index", **cases)


def spatial():
    line, image, volume = torch.randn(2, 3, 11), torch.randn(2, 4, 7, 10), torch.randn(1, 2, 4, 5, 6)
    cases = {}

    def conv(name, convolve, x, weight, bias=None, **options):
        case = dict(x=x, weight=weight, y=convolve(x, weight, bias, **options))
        if bias is not None:
            case["bias"] = bias
        cases[name] = case

    r = torch.randn
    conv("conv1d", F.conv1d, line, r(5, 3, 4), r(5), stride=2, padding=3, dilation=2)
    conv("conv2d", F.conv2d, image, r(6, 2, 3, 2), r(6), stride=(2, 1), padding=(1, 2), groups=2)
    conv("conv2d_depthwise", F.conv2d, image, r(4, 1, 3, 3), padding=1, groups=4)
    conv("conv3d", F.conv3d, volume, r(3, 2, 2, 3, 3), r(3), padding=(1, 0, 1))
    conv("transpose1d", F.conv_transpose1d, line, r(3, 2, 4), r(2), stride=3, padding=2, output_padding=2)
    conv(
        "transpose2d",
        F.conv_transpose2d,
        image,
        r(4, 3, 3, 2),
        r(6),
        stride=(2, 3),
        padding=(1, 0),
        output_padding=(1, 2),
        dilation=(2, 1),
        groups=2,
    )
    conv("transpose3d", F.conv_transpose3d, volume, r(2, 2, 2, 2, 3), stride=2, padding=1)

    for name, sizes in [("even", (7, 5)), ("uneven", (3, 4)), ("larger", (9, 13)), ("one", (1, 1))]:
        cases[f"adaptive_{name}"] = dict(
            x=image, mean=F.adaptive_avg_pool2d(image, sizes), max=F.adaptive_max_pool2d(image, sizes)
        )
    cases["adaptive_line"] = dict(x=line, mean=F.adaptive_avg_pool1d(line, 4), max=F.adaptive_max_pool1d(line, 4))
    for ceil in (False, True):
        y, indices = F.max_pool2d(image, (3, 2), (2, 3), (1, 1), return_indices=True, ceil_mode=ceil)
        cases[f"max_pool{'_ceil' if ceil else ''}"] = dict(x=image, y=y, indices=indices)
        cases[f"avg_pool{'_ceil' if ceil else ''}"] = dict(
            x=image,
            counted=F.avg_pool2d(image, (3, 2), (2, 3), (1, 1), ceil, True),
            uncounted=F.avg_pool2d(image, (3, 2), (2, 3), (1, 1), ceil, False),
        )
    cases["lp_pool"] = dict(x=image.abs(), y=F.lp_pool2d(image.abs(), 3.0, (2, 3), (2, 2)))
    y, indices = F.max_pool2d(image, 2, return_indices=True)
    cases["max_unpool"] = dict(x=y, indices=indices, y=F.max_unpool2d(y, indices, 2, output_size=(7, 10)))

    for name, sizes, options in [
        ("nearest", (5, 13), dict(mode="nearest")),
        ("nearest_exact", (5, 13), dict(mode="nearest-exact")),
        ("linear", (5, 13), dict(mode="bilinear")),
        ("linear_corners", (5, 13), dict(mode="bilinear", align_corners=True)),
        ("linear_antialias", (3, 4), dict(mode="bilinear", antialias=True)),
        ("cubic", (5, 13), dict(mode="bicubic")),
        ("cubic_corners", (9, 4), dict(mode="bicubic", align_corners=True)),
        ("cubic_antialias", (3, 6), dict(mode="bicubic", antialias=True)),
    ]:
        cases[f"resize_{name}"] = dict(x=image, y=F.interpolate(image, sizes, **options))
    cases["resize_trilinear"] = dict(x=volume, y=F.interpolate(volume, (6, 3, 9), mode="trilinear"))
    mixed = torch.randn(2, 8, 3, 2)
    cases["pixel_shuffle"] = dict(x=mixed, y=F.pixel_shuffle(mixed, 2))
    save("spatial", **cases)


def main():
    for make in (
        normalisation,
        attention,
        recurrent,
        foreach,
        distributions,
        linear_algebra,
        order,
        index,
        spatial,
    ):
        torch.manual_seed(20)
        with torch.no_grad():
            make()


if __name__ == "__main__":
    main()
