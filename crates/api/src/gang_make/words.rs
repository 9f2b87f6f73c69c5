//! Words of those who make gangs.

pub use crate::words::gang::{POD_GROUP, POD_GROUP_HASH, WORKLOAD};

/// The kind of Workloads.
pub const WORKLOAD_KIND: &str = "Workload";
/// The kind of PodGroups.
pub const GROUP_KIND: &str = "PodGroup";

/// Annotation of users: which pods are placed together.
pub const GANG: &str = "scheduling.muster.dev/gang";
/// Annotation of a Job whose owner has made the Workload: the template from which the Job makes its group.
pub const GROUP_TEMPLATE: &str = "scheduling.k8s.io/group-template-name";
/// Annotation of such a Job: the group that its group is part of.
pub const PARENT_GROUP: &str = "scheduling.k8s.io/parent-compositepodgroup";

/// Event: a Workload was made.
pub const WORKLOAD_CREATED: &str = "WorkloadCreated";
/// Event: a PodGroup was made.
pub const GROUP_CREATED: &str = "PodGroupCreated";
/// Event: what is asked for cannot be said as a Workload.
pub const COMPILATION_FAILED: &str = "FailedWorkloadCompilation";
/// Event: a Workload or a PodGroup was refused.
pub const CREATE_FAILED: &str = "FailedWorkloadCreate";
/// Event: a name is another's.
pub const NAME_CONFLICT: &str = "PodGroupNameConflict";
/// Event: more replicatedJobs than a Workload has templates.
pub const TOO_MANY_JOBS: &str = "TooManyReplicatedJobs";
/// Event: what was asked for would never start.
pub const GANG_SPLIT: &str = "GangSplit";
/// Event: more pods asked for than there will be.
pub const MIN_COUNT_LOWERED: &str = "MinCountLowered";
/// Event: gangs are asked for and not to be had.
pub const GANG_IGNORED: &str = "GangIgnored";
