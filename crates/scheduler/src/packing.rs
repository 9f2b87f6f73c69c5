//! Bin packing: which resources are scored by `MostAllocated` instead of `LeastAllocated`.

/// The resources by which pods are packed onto the fullest feasible node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// Extended resources such as GPUs, so that whole nodes stay free for pods that need all of them.
    #[default]
    Devices,
    /// Every resource except `pods`, so that as few nodes as possible are used.
    Everything,
    /// None, as kube-scheduler's default profile.
    Nothing,
}

impl Packing {
    /// Whether pods that ask for this resource are packed by it.
    #[must_use]
    pub fn packs(self, resource: &str) -> bool {
        match self {
            Packing::Devices => is_extended(resource),
            Packing::Everything => resource != "pods",
            Packing::Nothing => false,
        }
    }
}

/// Whether a resource is an extended resource.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}
