"""Systems of the literature that are one of our expressions under another name. Every placement here is ours.

Paper 2 has a table of its own, which this one does not quote. Where a system stands is computed from its expression.
"""

from __future__ import annotations

from dataclasses import dataclass

PLACED = "placed by us"  # what stands where an entry of the catalogue names its paper


@dataclass(frozen=True)
class System:
    """A system, after a comma which of its ways; the expression it comes to; and what that leaves out, if anything."""

    name: str
    expression: str
    says: str

    @property
    def title(self) -> str:
        """The system, whichever of its ways."""
        return self.name.partition(",")[0]


@dataclass(frozen=True)
class Outside:
    """A system that is none of our expressions, and why."""

    name: str
    reason: str


POSEIDON = "Exchange(where=Except(Dims(2, 2)), topology=Hub()) + Exchange(where=Dims(2, 2))"
TWO_BIT = "Exchange(topology=Hub(), codec=ErrorFeedback(Threshold(0.5)))"

SYSTEMS: tuple[System, ...] = (
    System("DistBelief", "downpour", "Replicas add their gains to a sharded server; cutting up a replica is left out."),
    System("Project Adam", "hogwild", "A server that nobody waits for; cutting up layers is left out."),
    System("Parameter Server (Li), in order", "parameter_server", "Every round waits for all."),
    System("Parameter Server (Li), bounded delay", "ssp", "Nobody runs far ahead; filters and replicas are left out."),
    System("Parameter Server (Li), at once", "hogwild", "Nobody waits."),
    System("Petuum", "ssp", "Its server Bösen bounds how far anybody runs ahead; cutting up the model is left out."),
    System("GeePS", "parameter_server", "Best in step, ssp with slack; moving GPU memory to the host is left out."),
    System("Poseidon", POSEIDON, "Matrices go among peers, not through the server; sufficient factors are left out."),
    System("SINGA, synchronous", "parameter_server", "Every round waits for all; cutting up the model is left out."),
    System("SINGA, asynchronous", "hogwild", "Nobody waits; cutting up the model is left out."),
    System("MXNet, synchronous", "parameter_server", "Its key-value store waits for all."),
    System("MXNet, asynchronous", "hogwild", "Its key-value store applies each gradient as it comes."),
    System("MXNet, 2-bit", TWO_BIT, "Plus or minus a threshold, the rest waits; ours writes only what passes."),
    System("TensorFlow, synchronous", "parameter_server", "Every round waits for all."),
    System("TensorFlow, backup workers", "backup_workers", "The last few are not waited for."),
    System("TensorFlow, asynchronous", "hogwild", "Nobody waits."),
    System("CNTK, 1-bit SGD", "one_bit", "Signs and two means per column, with error feedback."),
    System("CNTK, model averaging", "local_sgd", "Step alone, and average every so often."),
    System("CNTK, BMUF", "bmuf", "Model averaging with block momentum."),
    System("CNTK, asynchronous", "hogwild", "Nobody waits."),
    System("CaffeOnSpark", "byteps", "Each peer adds up one share of the gradient for all."),
    System("BigDL", "byteps", "Each task adds up one share of the gradient for all, through Spark's block store."),
    System("DeepSpark", "async_easgd", "Elastic averaging on Spark; nobody waits."),
    System("DL4J, averaging", "sparknet", "Step alone, and let Spark's master average every so often."),
    System("DL4J, shared gradients", "strom", "Plus or minus a threshold, the rest waits; ours keeps all in step."),
    System("MPCA-SGD", "async_easgd", "A penalty holds replicas together; its own penalty and its bound are left out."),
    System("Gossiping SGD, pull", "gossip_pull", "Average with a random partner that does not notice."),
    System("Gossiping SGD, push", "gossip_push", "Lay oneself into a random member's inbox."),
    System("GoSGD", "gossip_push", "A random push; the coin per step and the weights that travel along are left out."),
    System("Rudra", "softsync", "A server steps once a share of the gradients is in, each tempered by its staleness."),
    System("Caffe2", "allreduce(halving_doubling)", "All gradients by halving and doubling, or round a ring."),
    System("PyTorch DDP", "allreduce", "All gradients, by the backend's own all-reduce."),
)  # fmt: skip

OUTSIDE: tuple[Outside, ...] = (
    Outside("DistBelief Sandblaster L-BFGS", "a coordinator deals out one long batch; members exchange no steps"),
    Outside("GPipe", "it cuts up the model, not the data: a pipeline lies inside Compute"),
    Outside("PipeDream", "it cuts up the model, not the data: a pipeline lies inside Compute"),
)
