"""The tables of one subject compared with controls, and what comparison.json says about it."""

from typing import Any

from mtgbn._utils.described_table import DescribedTable, table_of
from mtgbn.compare.one_subject import Departures
from mtgbn.compare.strengths import DEFAULT_MEASURE, MEASURES
from mtgbn.compare.study import SubjectStudy

# A pair of a control with a smaller p-value is a false alarm.
ALARM_LEVEL = 0.05

# With a larger probability the subject has a connection.
_LEAST_PROBABILITY = 0.5

# What the words in the column departure mean, in a sentence about a connection.
DEPARTURE_IN_WORDS = {
    "new": "new in this subject, absent in the controls",
    "nobody": "in nobody's network",
    "opposite": "of the opposite sign",
    "stronger": "stronger than in controls",
    "weaker": "weaker than in controls",
}

_TEMPLATE = {"template": "set of variables that was compared separately"}
_DEPARTURES = {
    **_TEMPLATE,
    "variable_1": "first variable of the pair; directions are not compared",
    "variable_2": "second variable of the pair",
    "departure": "new: in the subject, in no control's network; nobody: in no control's network, and "
    "with a probability of at most 1/2 in the subject; opposite: the other sign than in controls, and "
    "stronger; or else stronger or weaker in the subject than in controls, whatever the sign",
    "strength": MEASURES[DEFAULT_MEASURE].description,
    "control_strength": "mean strength over the controls; with covariates what is expected of a control "
    "with those of the subject",
    "p": "share of all controls and pairs, this one included, with a score at least as large in size",
    "fdr": "estimated share of false discoveries among the pairs up to this one, within the template",
    "expected_alarms": "mean number of pairs of a control with a score as large, compared with the "
    "other controls; the subject is counted, too",
    "score": "difference between strength and control_strength (for correlations as Fisher's z), in "
    "units of its standard deviation among controls",
    "probability": "posterior probability that the subject has the connection, from its data alone",
    "control_probability": "mean of the same over the controls",
    "control_count": "controls who have it in the networks that were learned jointly from all controls",
    "n_controls": "number of controls",
}
_ALARMS = {
    **_TEMPLATE,
    "control": "a control, compared with the other controls as the subject was",
    "alarms": f"pairs with p below {ALARM_LEVEL}",
    "pairs": "number of pairs",
    "rate": "alarms / pairs",
}


def describe_subject(study: SubjectStudy) -> dict[str, Any]:
    """What comparison.json says about a comparison of one subject with controls."""
    return {
        "description": "one subject, compared with controls",
        "direction": "connections are compared without their directions",
        "subject": study.subject,
        "covariates": study.formula,
        "controls_without_covariates": dict(study.left_out),
        "controls": {"n": len(study.controls), "subjects": list(study.controls)},
        "templates": {
            name: {
                "variables": list(variables),
                "measure": MEASURES[found.measure].label,
                "false_alarm_rate": found.alarm_rate(ALARM_LEVEL),
                "false_alarm_level": ALARM_LEVEL,
            }
            for name, (variables, found) in study.templates.items()
        },
        "warnings": [],
    }


def departures_table(study: SubjectStudy) -> DescribedTable:
    """Make the table of the subject's departures."""
    columns, rows = dict(_DEPARTURES), []
    for name, (variables, found) in study.templates.items():
        columns["strength"] = MEASURES[found.measure].description
        for k, (i, j) in enumerate(zip(found.source, found.target, strict=True)):
            rows.append(
                [
                    *(name, variables[i], variables[j]),
                    _departure(found, k),
                    *(found.strength[k], found.control_strength[k]),
                    *(found.pvalue[k], found.fdr[k], found.expected_alarms[k], found.score[k]),
                    *(found.probability[k], found.control_probability[k]),
                    *(found.control_count[k], found.n_controls),
                ]
            )
    about = f"Connections of {study.subject}, the largest departures from the controls first"
    return table_of("departures", about, columns, rows)


def _departure(found: Departures, k: int) -> str:
    """One word about a departure; a connection that nobody has is not called one of other strength."""
    if found.control_count[k] == 0:
        return "new" if found.probability[k] > _LEAST_PROBABILITY else "nobody"
    if found.score[k] <= 0:
        return "weaker"
    return "opposite" if found.strength[k] * found.control_strength[k] < 0 else "stronger"


def alarms_table(study: SubjectStudy) -> DescribedTable:
    """Make the table of the controls' false alarms."""
    rows = []
    for name, (_, found) in study.templates.items():
        pairs = len(found.score)
        for control, rate in zip(study.controls, found.alarm_rates(ALARM_LEVEL), strict=True):
            rows.append([name, control, round(rate * pairs), pairs, rate])
    about = "False alarms of every control against the other controls"
    return table_of("alarms", about, _ALARMS, rows)
