"""An experiment is an expression. Nothing runs when it is built; `execute` runs what the store does not have yet.

pt     = Pretrained("srnet-tiny", SyntheticTask("inference"), seed=0)
ft     = FineTune(pt, CE())                                   # A_std(f(pt))
subnet = Prune(ft, MaskTraining(sparsity=0.7), PoE(bias))     # P_poe^mask(f(ft))
ticket = FineTune(Rewind(subnet, pt), CE())                   # A_std(f(M(.) * pt))
scores = Evaluate(subnet)                                     # E_ID, E_OOD
"""

from srnet.experiment.nodes import base, bias, models, objectives, training  # noqa: F401  each registers its nodes
