//! Which resources nodes are filled up by, instead of being kept equally free.

/// What pods are packed by: those who ask for it go to the fullest node that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// Scarce things of somebody's own making, such as GPUs, so that whole nodes stay free for those who need many.
    #[default]
    Devices,
    /// Everything, so that as few nodes as possible are in use.
    Everything,
    /// Nothing, as kube-scheduler does unless told otherwise.
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

/// Whether a resource is of somebody's own making, such as a GPU.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}
