"""Writes tests/optim/golden/*.safetensors: steps of torch.optim, with which the C++ tests compare qkv's optimizers.

Run from the repository root, with torch and numpy installed (a few seconds):

    python tests/golden/optimizers.py

A file has the steps of one optimizer with one set of options (in the metadata) for a matrix m and a vector v: m.value.0 and
v.value.0, then for each step s the gradients m.gradient.s and v.gradient.s and the values after it; learning rates in
learning_rate. Everything is computed in float64 and rounded once to float32 (see pytorch.py).
"""

import torch
from pytorch import F64, Case
from torch import nn

STEPS = 6
EPS32 = torch.finfo(torch.float32).eps


def optimizer_case(name, kind, keys, **options):
    """`keys`: qkv's names of options, if different."""
    told = {keys.get(key, key): value for key, value in options.items() if key not in ("betas", "eps")}
    if "betas" in options:
        told["beta1"], told["beta2"] = options["betas"]
    if kind is torch.optim.Adafactor:
        told["epsilon1"], told["epsilon2"] = options["eps"]
    elif "eps" in options:
        told["epsilon"] = options["eps"]
    case = Case(f"optim/golden/{name}", optimizer=kind.__name__, **told)
    parameters = {"m": nn.Parameter(case.draw(7, 5)), "v": nn.Parameter(case.draw(11))}
    rates = case.keep("learning_rate", case.draw(STEPS, scale=0.003, shift=0.02))
    optimizer = kind(parameters.values(), lr=1.0, **options)
    for key, value in parameters.items():
        case.keep(f"{key}.value.0", value)
    for step in range(1, STEPS + 1):
        optimizer.param_groups[0]["lr"] = float(rates[step - 1])
        for key, value in parameters.items():
            value.grad = case.keep(f"{key}.gradient.{step}", case.draw(*value.shape, scale=3.0 * 2.0 ** -step)).clone()
        optimizer.step()
        for key, value in parameters.items():
            case.keep(f"{key}.value.{step}", value)
    case.write()


def optimizer_cases():
    adam = dict(betas=(0.9, 0.98), eps=1e-9)
    optimizer_case("adam", torch.optim.Adam, {}, **adam)
    optimizer_case("adam_coupled", torch.optim.Adam, {}, **adam, weight_decay=0.3)
    optimizer_case("adam_amsgrad", torch.optim.Adam, {}, betas=(0.7, 0.6), eps=1e-4, amsgrad=True, weight_decay=0.1)
    optimizer_case("adamw", torch.optim.AdamW, {}, **adam, weight_decay=0.3)
    optimizer_case("adamw_amsgrad", torch.optim.AdamW, {}, betas=(0.7, 0.6), eps=1e-4, amsgrad=True, weight_decay=0.1)
    optimizer_case("sgd", torch.optim.SGD, {}, weight_decay=0.2)
    optimizer_case("sgd_momentum", torch.optim.SGD, {}, momentum=0.9, dampening=0.3, weight_decay=0.1)
    optimizer_case("sgd_nesterov", torch.optim.SGD, {}, momentum=0.8, nesterov=True)
    optimizer_case("rmsprop", torch.optim.RMSprop, {}, alpha=0.9, eps=1e-5, weight_decay=0.2)
    optimizer_case("rmsprop_momentum", torch.optim.RMSprop, {}, alpha=0.95, eps=1e-3, momentum=0.7)
    optimizer_case("rmsprop_centered", torch.optim.RMSprop, {}, alpha=0.8, eps=1e-2, momentum=0.6, centered=True,
                   weight_decay=0.1)
    optimizer_case("adagrad", torch.optim.Adagrad, {"initial_accumulator_value": "initial_accumulator"}, eps=1e-6,
                   lr_decay=0.2, initial_accumulator_value=0.4, weight_decay=0.1)
    optimizer_case("adafactor", torch.optim.Adafactor, {}, eps=(EPS32, 1e-3))
    optimizer_case("adafactor_decay", torch.optim.Adafactor, {"d": "clip_threshold"}, eps=(EPS32, 0.5), d=1.2,
                   beta2_decay=-0.5, weight_decay=0.3)

    case = Case("optim/golden/clip_gradients", max_norm=2.5)
    for name, scale in [("large", 1.0), ("small", 0.01)]:  # only the first exceeds max_norm
        parameters = []
        for i, shape in enumerate([(7, 5), (11,), (3, 4)]):
            parameters.append(nn.Parameter(torch.zeros(shape, dtype=F64)))
            parameters[-1].grad = case.keep(f"{name}.gradient.{i}", case.draw(*shape, scale=scale)).clone()
        norm = nn.utils.clip_grad_norm_(parameters, 2.5)
        assert (norm > 2.5) == (name == "large")
        case.keep(f"{name}.norm", norm.reshape(1))
        for i, parameter in enumerate(parameters):
            case.keep(f"{name}.clipped.{i}", parameter.grad)
    case.write()


if __name__ == "__main__":
    optimizer_cases()
