"""Many runs: every cell of a study, on this machine's cores or on a Slurm cluster."""

from isojepa_lab.sweep.estimate import Estimate
from isojepa_lab.sweep.plan import Plan, Task, find_studies, plan_studies, tasks_of
from isojepa_lab.sweep.sweep import Outcome, run_sweep

__all__ = ["Estimate", "Outcome", "Plan", "Task", "find_studies", "plan_studies", "run_sweep", "tasks_of"]
