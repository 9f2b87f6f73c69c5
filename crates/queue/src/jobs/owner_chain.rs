//! The owner chain: finds the managed ancestor that is queued instead of an object.
//!
//! Pods of a queued Job are admitted with the Job, Jobs of a queued JobSet with the JobSet: objects below a managed
//! one are not managed themselves. The walk follows controller owner references; the topmost managed ancestor
//! counts, as in Kueue.
//!
//! # Guarantees
//!
//! - The walk terminates: after [`LEVELS_MAX`] owners, at a repeated UID, or at an unknown kind.
//! - An object with another UID than the owner reference is not an owner.
//! - Nor is an owner that never creates such objects: otherwise a user with write access to ReplicaSets could claim a
//!   queued Job as its owner and bypass quota.

use std::collections::BTreeSet;
use std::fmt;

use muster_api::meta::OwnerReference;
use muster_api::queue::consts::{JOBSET_INTEGRATION, TRAINJOB_INTEGRATION};
use muster_tree::Text;

/// Bound on the length of the owner chain.
pub const LEVELS_MAX: usize = 10;

/// A kind that Kueue can queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integration {
    /// Its name in `integrations.frameworks`.
    pub name: &'static str,
    pub group: &'static str,
    pub kind: &'static str,
}

/// All kinds that Kueue integrates. The walk passes through them whether or not they are served here.
pub const INTEGRATIONS: &[Integration] = &[
    integration("batch/job", "batch", "Job"),
    integration(JOBSET_INTEGRATION, "jobset.x-k8s.io", "JobSet"),
    integration(TRAINJOB_INTEGRATION, "trainer.kubeflow.org", "TrainJob"),
    integration("pod", "", "Pod"),
    integration("deployment", "apps", "Deployment"),
    integration("statefulset", "apps", "StatefulSet"),
    integration("leaderworkerset.x-k8s.io/leaderworkerset", "leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
    integration("kubeflow.org/mpijob", "kubeflow.org", "MPIJob"),
    integration("kubeflow.org/pytorchjob", "kubeflow.org", "PyTorchJob"),
    integration("kubeflow.org/tfjob", "kubeflow.org", "TFJob"),
    integration("kubeflow.org/xgboostjob", "kubeflow.org", "XGBoostJob"),
    integration("kubeflow.org/paddlejob", "kubeflow.org", "PaddleJob"),
    integration("kubeflow.org/jaxjob", "kubeflow.org", "JAXJob"),
    integration("ray.io/rayjob", "ray.io", "RayJob"),
    integration("ray.io/raycluster", "ray.io", "RayCluster"),
    integration("ray.io/rayservice", "ray.io", "RayService"),
    integration("workload.codeflare.dev/appwrapper", "workload.codeflare.dev", "AppWrapper"),
    integration("sparkoperator.k8s.io/sparkapplication", "sparkoperator.k8s.io", "SparkApplication"),
];

const fn integration(name: &'static str, group: &'static str, kind: &'static str) -> Integration {
    Integration { name, group, kind }
}

/// Kinds that are not queued themselves and occur between pods and queued kinds.
const PASSED_THROUGH: &[(&str, &str)] = &[("apps", "ReplicaSet"), ("ray.io", "RayCluster")];

/// An external framework, `Kind.version.group`: its controller creates Workloads itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalFramework {
    pub kind: Text,
    pub group: Text,
}

impl ExternalFramework {
    #[must_use]
    pub fn parse(text: &str) -> Option<ExternalFramework> {
        let (kind, rest) = text.split_once('.')?;
        let (version, group) = rest.split_once('.')?;
        let is_whole = !kind.is_empty() && !version.is_empty() && !group.is_empty();
        is_whole.then(|| ExternalFramework { kind: kind.into(), group: group.into() })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ManagedKinds {
    pub enabled: BTreeSet<Text>,
    pub external: Vec<ExternalFramework>,
    /// Field `manageJobsWithoutQueueName` of Kueue's configuration.
    pub without_queue: bool,
}

type Named = (&'static str, &'static str);

/// Owner kinds that create objects of one kind only.
const MAKE_ONLY: &[(Named, Named)] = &[
    (("batch", "Job"), ("", "Pod")),
    (("jobset.x-k8s.io", "JobSet"), ("batch", "Job")),
    (("trainer.kubeflow.org", "TrainJob"), ("jobset.x-k8s.io", "JobSet")),
    (("apps", "Deployment"), ("apps", "ReplicaSet")),
    (("apps", "StatefulSet"), ("", "Pod")),
];

fn makes(owner: &OwnerReference, below: &OwnerReference) -> bool {
    let rule = MAKE_ONLY.iter().find(|(it, _)| *it == (owner.group(), &*owner.kind));
    rule.is_none_or(|(_, made)| *made == (below.group(), &*below.kind))
}

/// How the walk treats a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KindStatus {
    /// Unknown: the walk ends.
    Unknown,
    /// Not managed: the walk continues.
    Passed,
    /// Managed if it has a queue name.
    Enabled,
}

impl ManagedKinds {
    fn standing(&self, group: &str, kind: &str) -> KindStatus {
        let built_in = INTEGRATIONS.iter().find(|it| (it.group, it.kind) == (group, kind));
        // A pod never queues on behalf of other pods: pods created by a driver are queued themselves.
        let is_enabled = built_in.is_some_and(|it| self.enabled.contains(it.name) && it.kind != "Pod");
        if is_enabled || self.external.iter().any(|it| (&*it.group, &*it.kind) == (group, kind)) {
            return KindStatus::Enabled;
        }
        match built_in.is_some() || PASSED_THROUGH.contains(&(group, kind)) {
            true => KindStatus::Passed,
            false => KindStatus::Unknown,
        }
    }

    /// Whether this kind is an enabled integration.
    #[must_use]
    pub fn is_enabled(&self, group: &str, kind: &str) -> bool {
        self.standing(group, kind) == KindStatus::Enabled
    }
}

/// The fields of an owner that the walk reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerInfo {
    pub uid: Text,
    /// Empty without a queue name.
    pub queue: Text,
    pub controller: Option<OwnerReference>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedAncestor {
    pub owner: OwnerReference,
    /// Empty if jobs without a queue name are managed.
    pub queue: Text,
}

/// Why the managed ancestor could not be determined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerChainError {
    /// An owner does not exist: not observed yet, or being garbage-collected.
    NotFound(OwnerReference),
    Unreadable(String),
    /// The chain exceeds [`LEVELS_MAX`].
    TooDeep,
    /// The chain has a cycle.
    Cyclic,
}

impl fmt::Display for OwnerChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnerChainError::NotFound(owner) => {
                write!(f, "workload owner not found: {} {}", owner.kind, owner.name)
            }
            OwnerChainError::Unreadable(words) => f.write_str(words),
            OwnerChainError::TooDeep => f.write_str("managed owner chain limit reached"),
            OwnerChainError::Cyclic => f.write_str("cyclic ownership"),
        }
    }
}

/// Finds the topmost managed ancestor of an object. `look` returns an owner in the object's namespace; metadata
/// suffices.
///
/// # Errors
/// An owner is missing or unreadable, or the chain is too long.
pub fn find_managed_ancestor(
    uid: &str,
    controller: Option<&OwnerReference>,
    managed: &ManagedKinds,
    mut look: impl FnMut(&OwnerReference) -> Result<Option<OwnerInfo>, String>,
) -> Result<Option<ManagedAncestor>, OwnerChainError> {
    let mut visited: BTreeSet<Text> = BTreeSet::from([Text::from(uid)]);
    let mut next = controller.cloned();
    let mut highest = None;
    let mut below: Option<OwnerReference> = None;
    while let Some(owner) = next {
        if below.is_some_and(|below| !makes(&owner, &below)) {
            break;
        }
        let standing = managed.standing(owner.group(), &owner.kind);
        if standing == KindStatus::Unknown {
            break;
        }
        // `visited` contains the object itself, so the bound is on owners.
        if visited.len() > LEVELS_MAX {
            return Err(OwnerChainError::TooDeep);
        }
        if !visited.insert(owner.uid.clone()) {
            return Err(OwnerChainError::Cyclic);
        }
        let Some(above) = look(&owner).map_err(OwnerChainError::Unreadable)? else {
            return Err(OwnerChainError::NotFound(owner));
        };
        // The referenced owner was deleted and recreated under its name.
        if above.uid != owner.uid {
            break;
        }
        if standing == KindStatus::Enabled && (managed.without_queue || !above.queue.is_empty()) {
            highest = Some(ManagedAncestor { owner: owner.clone(), queue: above.queue });
        }
        (next, below) = (above.controller, Some(owner));
    }
    Ok(highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(text: &str) -> OwnerReference {
        // kind/name, with the group that the kind has.
        let (kind, name) = text.split_once('/').unwrap();
        let api_version = match kind {
            "Job" => "batch/v1",
            "JobSet" => "jobset.x-k8s.io/v1alpha2",
            "ReplicaSet" | "Deployment" => "apps/v1",
            "RayCluster" | "RayJob" => "ray.io/v1",
            "MPIJob" => "kubeflow.org/v2beta1",
            "Foo" => "example.com/v1",
            _ => "other.example/v1",
        };
        OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            uid: name.into(),
            controller: true,
            block_owner_deletion: true,
        }
    }

    /// `Job/j` is an owner without a queue, `Job/j@q` one in queue `q`; each owns the one before it.
    fn walk(chain: &[&str], managed: &ManagedKinds) -> Result<Option<Text>, String> {
        let split = |text: &str| -> (String, Text) {
            let (front, queue) = text.split_once('@').unwrap_or((text, ""));
            (front.to_owned(), Text::from(queue))
        };
        let owners: Vec<(OwnerReference, Text)> =
            chain.iter().map(|it| split(it)).map(|(front, queue)| (owner(&front), queue)).collect();
        let look = |asked: &OwnerReference| {
            let at = owners.iter().position(|(it, _)| it == asked).unwrap();
            if asked.name.starts_with("gone") {
                return Ok(None);
            }
            if asked.name.starts_with("broken") {
                return Err("no answer".to_owned());
            }
            let uid = if asked.name.starts_with("other") { "namesake".into() } else { asked.uid.clone() };
            let controller = owners.get(at + 1).map(|it| it.0.clone());
            Ok(Some(OwnerInfo { uid, queue: owners[at].1.clone(), controller }))
        };
        let found = find_managed_ancestor("pod", owners.first().map(|it| &it.0), managed, look);
        found.map(|it| it.map(|it| it.owner.name)).map_err(|it| it.to_string())
    }

    fn managed(enabled: &[&str], without_queue: bool) -> ManagedKinds {
        let external = vec![ExternalFramework::parse("Foo.v1.example.com").unwrap()];
        ManagedKinds { enabled: enabled.iter().map(|it| Text::from(*it)).collect(), external, without_queue }
    }

    /// Shows: 976-12, 976-13, 976-14, 976-15.
    #[test]
    fn topmost_managed_ancestor_counts() {
        let usual = managed(&["batch/job", "jobset.x-k8s.io/jobset", "pod"], false);
        let all = managed(&["batch/job", "jobset.x-k8s.io/jobset"], true);
        let no_jobs = managed(&["pod"], false);
        let deep: Vec<String> = (0..12).map(|n| format!("Foo/f{n}")).collect();
        let deep: Vec<&str> = deep.iter().map(String::as_str).collect();
        type Case<'a> = (&'a str, &'a [&'a str], &'a ManagedKinds, Result<Option<&'a str>, &'a str>);
        let cases: [Case<'_>; 22] = [
            ("no owner", &[], &usual, Ok(None)),
            ("a queued Job", &["Job/j@q"], &usual, Ok(Some("j"))),
            ("a Job without a queue", &["Job/j"], &usual, Ok(None)),
            ("without a queue, where that is managed", &["Job/j"], &all, Ok(Some("j"))),
            ("the JobSet above its Job", &["Job/j", "JobSet/s@q"], &usual, Ok(Some("s"))),
            ("both queued: the higher one", &["Job/j@q", "JobSet/s@q"], &usual, Ok(Some("s"))),
            ("the lower one, if only that is", &["Job/j@q", "JobSet/s"], &usual, Ok(Some("j"))),
            ("an integration that is off", &["Job/j@q"], &no_jobs, Ok(None)),
            ("through one that is off", &["Job/j", "Foo/f@q"], &no_jobs, Ok(Some("f"))),
            ("through a ReplicaSet", &["ReplicaSet/r", "Foo/f@q"], &usual, Ok(Some("f"))),
            ("through a RayCluster", &["RayCluster/c@q", "Foo/f@q"], &usual, Ok(Some("f"))),
            ("an unknown kind ends the walk", &["Bar/b@q", "Job/j@q"], &usual, Ok(None)),
            ("what was found below it stays", &["Job/j@q", "Bar/b@q", "JobSet/s@q"], &usual, Ok(Some("j"))),
            ("a namesake is no owner", &["Job/other@q"], &usual, Ok(None)),
            ("a missing owner", &["Job/gone@q"], &usual, Err("workload owner not found: Job gone")),
            ("an unreadable owner", &["Job/broken@q"], &usual, Err("no answer")),
            ("ten levels", &deep[..10], &all, Ok(Some("f9"))),
            ("eleven levels", &deep[..11], &all, Err("managed owner chain limit reached")),
            ("a Job has no ReplicaSets", &["ReplicaSet/r", "Job/j@q"], &usual, Ok(None)),
            ("a JobSet has none either", &["ReplicaSet/r", "JobSet/s@q"], &usual, Ok(None)),
            ("what was found below a wrong one stays", &["Job/j@q", "Job/k@q"], &usual, Ok(Some("j"))),
            ("a launcher of another's job", &["Job/j", "MPIJob/m@q"], &usual, Ok(None)),
        ];
        for (says, chain, managed, want) in cases {
            let want = want.map(|it| it.map(Text::from)).map_err(str::to_owned);
            assert_eq!(walk(chain, managed), want, "{says}");
        }
    }

    #[test]
    fn owner_cycle_is_an_error() {
        let round = OwnerInfo { uid: "f".into(), queue: "q".into(), controller: Some(owner("Foo/f")) };
        let walk = |uid| {
            find_managed_ancestor(uid, Some(&owner("Foo/f")), &managed(&[], false), |_| {
                Ok(Some(round.clone()))
            })
        };
        assert_eq!(walk("pod"), Err(OwnerChainError::Cyclic));
        assert_eq!(walk("f"), Err(OwnerChainError::Cyclic), "an object that owns itself");
    }

    #[test]
    fn external_frameworks_are_parsed() {
        assert_eq!(ExternalFramework::parse("RayJob.v1.ray.io").map(|it| it.group), Some("ray.io".into()));
        for bad in ["", "RayJob", "RayJob.v1", ".v1.ray.io", "RayJob..ray.io", "RayJob.v1."] {
            assert_eq!(ExternalFramework::parse(bad), None, "{bad}");
        }
        let usual = managed(&["batch/job"], false);
        assert!(usual.is_enabled("batch", "Job") && usual.is_enabled("example.com", "Foo"));
        assert!(!usual.is_enabled("jobset.x-k8s.io", "JobSet") && !usual.is_enabled("batch", "CronJob"));
    }
}
