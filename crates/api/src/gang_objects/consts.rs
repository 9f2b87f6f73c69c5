//! Constants of the controllers that create Workloads and PodGroups.

pub use crate::consts::gang::{POD_GROUP, POD_GROUP_HASH, WORKLOAD};

/// `kind` of a Workload object.
pub const WORKLOAD_KIND: &str = "Workload";
/// `kind` of a PodGroup object.
pub const GROUP_KIND: &str = "PodGroup";

/// Annotation set by users: which pods of a JobSet form a gang.
pub const GANG: &str = "scheduling.muster.dev/gang";
/// Annotation of a Job with an owner that created the Workload: the template of its PodGroup.
pub const GROUP_TEMPLATE: &str = "scheduling.k8s.io/group-template-name";
/// Annotation of such a Job: the composite PodGroup that its PodGroup belongs to.
pub const PARENT_GROUP: &str = "scheduling.k8s.io/parent-compositepodgroup";

/// Event: a Workload was created.
pub const WORKLOAD_CREATED: &str = "WorkloadCreated";
/// Event: a PodGroup was created.
pub const GROUP_CREATED: &str = "PodGroupCreated";
/// Event: the request cannot be expressed as a Workload.
pub const COMPILATION_FAILED: &str = "FailedWorkloadCompilation";
/// Event: the API server rejected the create of a Workload or PodGroup.
pub const CREATE_FAILED: &str = "FailedWorkloadCreate";
/// Event: an object of this name has another owner.
pub const NAME_CONFLICT: &str = "PodGroupNameConflict";
/// Event: a Workload cannot have as many templates as there are replicatedJobs.
pub const TOO_MANY_JOBS: &str = "TooManyReplicatedJobs";
/// Event: the requested gang could never start, for example across `dependsOn`, and was split.
pub const GANG_SPLIT: &str = "GangSplit";
/// Event: `minCount` exceeds the number of pods and was lowered.
pub const MIN_COUNT_LOWERED: &str = "MinCountLowered";
/// Event: gang scheduling was requested and is not available.
pub const GANG_IGNORED: &str = "GangIgnored";
