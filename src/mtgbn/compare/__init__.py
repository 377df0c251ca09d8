"""What differs between two groups of tasks, and between one task and a group."""

from mtgbn.compare.proportions import (
    ProportionTest,
    RiskDifference,
    exact_test,
    proportion_test,
    risk_difference,
)

__all__ = ["ProportionTest", "RiskDifference", "exact_test", "proportion_test", "risk_difference"]
