"""Claims about the relatives of the residual algorithms: their bias, where they rest, and what they cure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bires.linear import exact
from bires.linear.algorithms import learn, learn_expected
from bires.linear.claims import FULL, LabScale, Table, Verdict
from bires.linear.dynamics import fixed_point, largest_step, stable_steps
from bires.linear.eta import margin
from bires.linear.mdp import Array, Problem
from bires.linear.methods import BAIRD, BORROWED, C_DQN, GTD2, KERNEL, RG, RG1, TD, TDC, TDRC, Method, ra
from bires.linear.problems import baird_star, random_mdp, ring, rough_mdp, w_to_2w
from bires.linear.stability import error_rows, growth

NOISES = (0.1, 0.3, 0.6)
ORTHO = ra(0.5, "ortho")
REGULARISED = ra(0.5, "fr", 0.01)
BAIRD_MARGIN = replace(BAIRD, name="Baird's φ + 0.05", eta=0.05)
ALONE = replace(C_DQN, successors=1)
"""C-DQN as deep agents have it: with one successor."""

LENGTHS, BOUNDED = (200_000, 4_000_000), 1.01
"""Expected updates, more if need be, and how much values may grow from a quarter of them to the next."""
TARGETED = replace(ra(0.0, "to", 0.01), name="TD, target network")
"""The rule `td` of deep agents."""
BI, BI_MORE = ra(0.05, "bi", 0.01), ra(0.2, "bi", 0.01)
PLACES = ("Baird's star", "w→2w", "random MDPs")
SMALL = {KERNEL.name: 0.003}
"""Step sizes on the star: products of two importance ratios need a smaller one."""


def sampled_bias(given: Problem, pairs: Sequence[tuple[Method, float]], scale: LabScale) -> list[tuple[float, float]]:
    """Root mean square, over states, of the bias of v and of its standard error, for each (method, step size).

    v of a seed is its mean over the second half of the run, whose states are drawn from d.
    """
    steps = 2 * scale.steps
    v = learn(given, pairs, scale.seeds, steps, every=steps // 100, trajectory=False)[:, :, 50:].mean(2)
    d = exact.weighting(given)
    bias = v.mean(1) - exact.true_value(given)
    error = v.std(1, ddof=1) / np.sqrt(scale.seeds)
    return list(zip(np.sqrt(bias**2 @ d).tolist(), np.sqrt(error**2 @ d).tolist(), strict=True))


def noise(scale: LabScale = FULL) -> Verdict:
    """The sampled methods on rings of growing noise: bias against its standard error."""
    groups = (
        ((RG1, 0.3), (RG, 0.3), (BORROWED, 0.3), (replace(ALONE, tau=0.05), 0.3)),
        ((TDRC, 0.5),),
        ((KERNEL, 1.0),),
        ((BAIRD, 0.3),),
    )
    rows: Table = []
    for chance in NOISES:
        given = ring(noise=chance, gamma=0.8)
        for pairs in groups:
            for (method, _), (bias, error) in zip(pairs, sampled_bias(given, pairs, scale), strict=True):
                rows.append({"method": method.name, "noise": chance, "bias": bias, "standard error": error})
    uneven: Table = [
        {
            "noise": float(chance),
            "method": method.name,
            "RMSVE": float(np.sqrt(exact.msve(given, fixed_point(given, method)))),
        }
        for chance in np.linspace(0.0, 1.0, 21)
        for given in (ring(noise=float(chance), gamma=0.8, quiet=5),)
        for method in (RG1, BORROWED, RG)
    ]
    ratios = {
        name: [float(row["bias"]) / float(row["standard error"]) for row in rows if row["method"] == name]
        for name in dict.fromkeys(str(row["method"]) for row in rows)
    }
    one = [float(row["bias"]) for row in rows if row["method"] == RG1.name]
    cured = [name for name in ratios if name not in (RG1.name, C_DQN.name)]
    return Verdict(
        "noise",
        "On samples, the bias of RG with one successor grows with noise; a second successor, TDRC and the kernel loss "
        "have none beyond the standard error.",
        "Baird 1995; Ghiassian et al. 2020; Feng et al. 2019",
        one == sorted(one) and min(ratios[RG1.name]) > 5 and max(max(ratios[name]) for name in cured) < 2.5,
        {f"{RG1.name}, bias at noise {row['noise']:g}": row["bias"] for row in rows if row["method"] == RG1.name}
        | {f"{name}: largest bias / standard error": max(found) for name, found in ratios.items()}
        | {
            f"noise 0.5 in half of the states, RMSVE of {row['method']}": float(row["RMSVE"])
            for row in uneven
            if row["noise"] == 0.5
        },
        {"sampled": rows, "uneven": uneven},
    )


def _followed(given: Problem, method: Method, alpha: float, steps: int) -> Array:
    """The values that a method without a linear map reaches in expectation."""
    return np.asarray(learn_expected(given, method, [alpha], steps, every=steps)[0, -1])


def rests(scale: LabScale = FULL) -> Verdict:
    """Where each method rests on random MDPs, in units of the distance from the MSPBE to the MSBE minimiser."""
    linear = (TD, TARGETED, BI, RG, RG1, ra(0.5), TDRC, REGULARISED, ORTHO, KERNEL)
    followed = ((BAIRD_MARGIN, 0.2), (replace(ALONE, tau=0.05), 0.2))
    rows: Table = []
    for seed in range(max(2, scale.mdps // 20)):
        given = random_mdp(seed, 5, 2, 2, 0.8)
        td, rg, tde = (
            given.X @ find(given) for find in (exact.mspbe_minimiser, exact.msbe_minimiser, exact.mstde_minimiser)
        )
        values = {method.name: given.X @ fixed_point(given, method) for method in linear}
        values |= {method.name: _followed(given, method, alpha, 4000) for method, alpha in followed}
        unit = _distance(given, td, rg)
        rows += [
            {
                "mdp": seed,
                "method": name,
                "to MSPBE": _distance(given, v, td) / unit,
                "to MSBE": _distance(given, v, rg) / unit,
                "to MSTDE": _distance(given, v, tde) / unit,
            }
            for name, v in values.items()
        ]
    names = dict.fromkeys(str(row["method"]) for row in rows)
    middle = {
        (name, error): float(np.median([float(row[f"to {error}"]) for row in rows if row["method"] == name]))
        for name in names
        for error in ("MSPBE", "MSBE", "MSTDE")
    }
    worst = {
        (name, error): max(float(row[f"to {error}"]) for row in rows if row["method"] == name) for name, error in middle
    }
    between = [name for name in names if min(middle[name, error] for error in ("MSPBE", "MSBE", "MSTDE")) > 1e-3]
    same = worst[TDRC.name, "MSPBE"], worst[REGULARISED.name, "MSPBE"], worst[RG.name, "MSBE"], worst[RG1.name, "MSTDE"]
    return Verdict(
        "rests",
        "TDRC and functional regularisation rest at the MSPBE minimum, RG at that of MSBE, RG with one successor at "
        "that of MSTDE; orthogonal gradients, the kernel loss and C-DQN rest at none of them.",
        "Ghiassian et al. 2020; Piché et al. 2021; the distances are ours",
        max(same) < 1e-6 and {ORTHO.name, KERNEL.name, C_DQN.name} <= set(between),
        {"random MDPs": float(len(rows) // len(names))}
        | {f"{name}: median distance to the {error} minimum": found for (name, error), found in middle.items()},
        {"distances": rows},
    )


def _distance(given: Problem, v: Array, other: Array) -> float:
    """‖v − other‖_d."""
    return float(np.sqrt((v - other) ** 2 @ exact.weighting(given)))


def stable(given: Problem, method: Method) -> bool:
    """Whether some step size makes the expected update converge.

    Of methods without a linear map: whether the values are bounded with a step size of 0.03.
    """
    if method.kind == "baird" or method.rule == "convergent":
        return any(bounded(given, method, steps) for steps in LENGTHS)
    if method.tau == 1.0:
        return largest_step(given, method) > 0.0
    return stable_steps(given, method)[1] > 0.0


def bounded(given: Problem, method: Method, steps: int) -> bool:
    """Whether the largest value of the last quarter of so many updates is that of the quarter before, or less."""
    sizes = np.abs(learn_expected(given, method, [0.03], steps, every=steps // 400)[0]).max(-1)
    return bool(sizes[300:].max() <= BOUNDED * sizes[200:300].max())  # of nan, no


def cures(scale: LabScale = FULL) -> Verdict:
    """Which methods are stable where TD is not: Baird's star, w→2w, and the random MDPs where TD diverges."""
    residual = (RG, ra(0.2), ra(0.5), TARGETED, BI, BI_MORE)
    methods = (*residual, GTD2, TDC, TDRC, KERNEL, ORTHO, REGULARISED, ALONE, BAIRD, BAIRD_MARGIN)
    star, two = baird_star(), w_to_2w()
    hard = [given for given in map(rough_mdp, range(scale.mdps)) if margin(given, 0.0) <= 0.0]
    rows: Table = [
        {
            "method": method.name,
            "Baird's star": float(stable(star, method)),
            "w→2w": float(stable(two, method)),
            "random MDPs": float(np.mean([stable(given, method) for given in hard])) if hard else float("nan"),
        }
        for method in methods
    ]
    table = {str(row["method"]): row for row in rows}
    every, curves = scale.steps // 100, []
    growths: dict[str, float] = {}
    for group in ((TD, ORTHO, ALONE, REGULARISED), (TDRC,), (KERNEL,), (BAIRD_MARGIN,)):
        values = learn(
            star, [(method, SMALL.get(method.name, 0.01)) for method in group], scale.seeds, scale.steps, every=every
        )
        for method, errors in zip(group, exact.rmsve(star, values), strict=True):
            curves += error_rows(method.name, errors, every)
            growths[method.name] = growth(errors)
    firm = (RG, KERNEL, BAIRD, BAIRD_MARGIN, GTD2, TDC, ALONE)
    frail = (TDRC, ORTHO, REGULARISED, TARGETED, BI)
    calm = [growths[method.name] for method in (ORTHO, ALONE, TDRC, KERNEL, BAIRD_MARGIN)]
    return Verdict(
        "cures",
        "Where TD diverges, RG, Gradient-TD, the kernel loss, Baird's φ and C-DQN do not; TDRC, orthogonal gradients, "
        "functional regularisation and slow target networks, also with Bi-Res(0.05), cure some problems only.",
        "Baird 1995; Sutton et al. 2009; Feng et al. 2019; the counterexamples are ours",
        not any(table[method.name][name] < 1 for method in firm for name in PLACES)
        and all(any(table[method.name][name] < 1 for name in PLACES) for method in frail)
        and growths["TD"] > 10
        and max(calm) < 1.1,
        {"random MDPs where TD diverges": float(len(hard))}
        | {f"{row['method']}: stable on {name}": float(row[name]) for row in rows for name in PLACES}
        | {f"growth of RMSVE in the second half, star, sampled, {name}": value for name, value in growths.items()},
        {"stable": rows, "curves": curves},
    )
