//! Whether something above an object is queued in its stead.
//!
//! Pods of a queued Job wait with the Job, Jobs of a queued JobSet with the JobSet: what is below a managed object is
//! left alone. The walk goes from owner to owner, and the highest managed one counts.
//!
//! # Invariants
//!
//! - The walk ends: after [`LEVELS_MAX`] owners, at a UID that was there before, or at a kind that nobody knows.
//! - An owner whose UID differs from the reference is a namesake, and not an owner.
//! - Nor is one that never makes what names it: whoever may write a ReplicaSet could say that a queued Job has it.

use std::collections::BTreeSet;
use std::fmt;

use muster_api::meta::Owner;
use muster_tree::Text;

/// Most owners above one another.
pub const LEVELS_MAX: usize = 10;

/// A kind that can be queued, as configuration names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Integration {
    /// Its name in configuration.
    pub name: &'static str,
    /// Its group.
    pub group: &'static str,
    /// Its kind.
    pub kind: &'static str,
}

/// Every kind that queueing knows by itself; whether it is served here or not, the walk goes through it.
pub const INTEGRATIONS: &[Integration] = &[
    integration("batch/job", "batch", "Job"),
    integration("jobset.x-k8s.io/jobset", "jobset.x-k8s.io", "JobSet"),
    integration("trainer.kubeflow.org/trainjob", "trainer.kubeflow.org", "TrainJob"),
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

/// Kinds that are never queued themselves and stand between pods and what is.
const PASSED_THROUGH: &[(&str, &str)] = &[("apps", "ReplicaSet"), ("ray.io", "RayCluster")];

/// A kind of another controller that queues what it makes: `Kind.version.group`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct External {
    /// Its kind.
    pub kind: Text,
    /// Its group.
    pub group: Text,
}

impl External {
    /// Reads `Kind.version.group`.
    #[must_use]
    pub fn parse(text: &str) -> Option<External> {
        let (kind, rest) = text.split_once('.')?;
        let (version, group) = rest.split_once('.')?;
        let is_whole = !kind.is_empty() && !version.is_empty() && !group.is_empty();
        is_whole.then(|| External { kind: kind.into(), group: group.into() })
    }
}

/// Which kinds are managed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Managed {
    /// Names of the integrations that are enabled.
    pub enabled: BTreeSet<Text>,
    /// Kinds of other controllers.
    pub external: Vec<External>,
    /// Whether jobs without a queue are managed too.
    pub without_queue: bool,
}

/// A group and a kind in it.
type Named = (&'static str, &'static str);

/// What these make, and nothing else that has pods: the owner, and what it has.
const MAKE_ONLY: &[(Named, Named)] = &[
    (("batch", "Job"), ("", "Pod")),
    (("jobset.x-k8s.io", "JobSet"), ("batch", "Job")),
    (("trainer.kubeflow.org", "TrainJob"), ("jobset.x-k8s.io", "JobSet")),
    (("apps", "Deployment"), ("apps", "ReplicaSet")),
    (("apps", "StatefulSet"), ("", "Pod")),
];

fn makes(owner: &Owner, below: &Owner) -> bool {
    let rule = MAKE_ONLY.iter().find(|(it, _)| *it == (owner.group(), &*owner.kind));
    rule.is_none_or(|(_, made)| *made == (below.group(), &*below.kind))
}

/// What a kind is to the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Nobody knows it: the walk ends.
    Unknown,
    /// The walk goes on above it.
    Passed,
    /// It may be queued itself.
    Enabled,
}

impl Managed {
    fn standing(&self, group: &str, kind: &str) -> Standing {
        let built_in = INTEGRATIONS.iter().find(|it| (it.group, it.kind) == (group, kind));
        // A pod makes no pods on behalf of a queue: whoever belongs to one (workers of a driver) is queued himself.
        let is_enabled = built_in.is_some_and(|it| self.enabled.contains(it.name) && it.kind != "Pod");
        if is_enabled || self.external.iter().any(|it| (&*it.group, &*it.kind) == (group, kind)) {
            return Standing::Enabled;
        }
        match built_in.is_some() || PASSED_THROUGH.contains(&(group, kind)) {
            true => Standing::Passed,
            false => Standing::Unknown,
        }
    }

    /// Whether objects of this kind may be queued here.
    #[must_use]
    pub fn is_enabled(&self, group: &str, kind: &str) -> bool {
        self.standing(group, kind) == Standing::Enabled
    }
}

/// What the walk wants to know of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Above {
    /// Its UID.
    pub uid: Text,
    /// The queue that it names; empty for none.
    pub queue: Text,
    /// Its own controller.
    pub controller: Option<Owner>,
}

/// A managed owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ancestor {
    /// Which.
    pub owner: Owner,
    /// The queue that it names; empty where jobs without a queue are managed.
    pub queue: Text,
}

/// Why nothing can be told about ancestors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// An owner is not there: it may come, or the object goes after it.
    NotFound(Owner),
    /// An owner could not be looked up.
    Unreadable(String),
    /// There are more owners above one another than anybody needs.
    TooDeep,
    /// An owner owns itself, by others.
    Cyclic,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::NotFound(owner) => write!(f, "workload owner not found: {} {}", owner.kind, owner.name),
            Lost::Unreadable(words) => f.write_str(words),
            Lost::TooDeep => f.write_str("managed owner chain limit reached"),
            Lost::Cyclic => f.write_str("cyclic ownership"),
        }
    }
}

/// The highest managed owner of an object with this UID and controller. `look` finds an owner in the object's
/// namespace; metadata is enough.
///
/// # Errors
/// An owner is missing or unreadable, or there are too many.
pub fn find(
    uid: &str,
    controller: Option<&Owner>,
    managed: &Managed,
    mut look: impl FnMut(&Owner) -> Result<Option<Above>, String>,
) -> Result<Option<Ancestor>, Lost> {
    let mut seen: BTreeSet<Text> = BTreeSet::from([Text::from(uid)]);
    let mut next = controller.cloned();
    let mut highest = None;
    let mut below: Option<Owner> = None;
    while let Some(owner) = next {
        if below.is_some_and(|below| !makes(&owner, &below)) {
            break;
        }
        let standing = managed.standing(owner.group(), &owner.kind);
        if standing == Standing::Unknown {
            break;
        }
        if seen.len() > LEVELS_MAX {
            return Err(Lost::TooDeep);
        }
        if !seen.insert(owner.uid.clone()) {
            return Err(Lost::Cyclic);
        }
        let Some(above) = look(&owner).map_err(Lost::Unreadable)? else { return Err(Lost::NotFound(owner)) };
        if above.uid != owner.uid {
            break;
        }
        if standing == Standing::Enabled && (managed.without_queue || !above.queue.is_empty()) {
            highest = Some(Ancestor { owner: owner.clone(), queue: above.queue });
        }
        (next, below) = (above.controller, Some(owner));
    }
    Ok(highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(text: &str) -> Owner {
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
        Owner {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            uid: name.into(),
            controller: true,
            blocks: true,
        }
    }

    /// `Job/j` is an owner without a queue, `Job/j@q` one in queue `q`; each owns the one before it.
    fn walk(chain: &[&str], managed: &Managed) -> Result<Option<Text>, String> {
        let split = |text: &str| -> (String, Text) {
            let (front, queue) = text.split_once('@').unwrap_or((text, ""));
            (front.to_owned(), Text::from(queue))
        };
        let owners: Vec<(Owner, Text)> =
            chain.iter().map(|it| split(it)).map(|(front, queue)| (owner(&front), queue)).collect();
        let look = |asked: &Owner| {
            let at = owners.iter().position(|(it, _)| it == asked).unwrap();
            if asked.name.starts_with("gone") {
                return Ok(None);
            }
            if asked.name.starts_with("broken") {
                return Err("no answer".to_owned());
            }
            let uid = if asked.name.starts_with("other") { "namesake".into() } else { asked.uid.clone() };
            let controller = owners.get(at + 1).map(|it| it.0.clone());
            Ok(Some(Above { uid, queue: owners[at].1.clone(), controller }))
        };
        let found = find("pod", owners.first().map(|it| &it.0), managed, look);
        found.map(|it| it.map(|it| it.owner.name)).map_err(|it| it.to_string())
    }

    fn managed(enabled: &[&str], without_queue: bool) -> Managed {
        let external = vec![External::parse("Foo.v1.example.com").unwrap()];
        Managed { enabled: enabled.iter().map(|it| Text::from(*it)).collect(), external, without_queue }
    }

    /// Shows: 976-12, 976-13, 976-14, 976-15.
    #[test]
    fn the_highest_managed_owner_counts() {
        let usual = managed(&["batch/job", "jobset.x-k8s.io/jobset", "pod"], false);
        let all = managed(&["batch/job", "jobset.x-k8s.io/jobset"], true);
        let no_jobs = managed(&["pod"], false);
        let deep: Vec<String> = (0..12).map(|n| format!("Foo/f{n}")).collect();
        let deep: Vec<&str> = deep.iter().map(String::as_str).collect();
        type Case<'a> = (&'a str, &'a [&'a str], &'a Managed, Result<Option<&'a str>, &'a str>);
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
    fn a_circle_ends() {
        let round = Above { uid: "f".into(), queue: "q".into(), controller: Some(owner("Foo/f")) };
        let walk = |uid| find(uid, Some(&owner("Foo/f")), &managed(&[], false), |_| Ok(Some(round.clone())));
        assert_eq!(walk("pod"), Err(Lost::Cyclic));
        assert_eq!(walk("f"), Err(Lost::Cyclic), "an object that owns itself");
    }

    #[test]
    fn frameworks_of_others_are_read() {
        assert_eq!(External::parse("RayJob.v1.ray.io").map(|it| it.group), Some("ray.io".into()));
        for bad in ["", "RayJob", "RayJob.v1", ".v1.ray.io", "RayJob..ray.io", "RayJob.v1."] {
            assert_eq!(External::parse(bad), None, "{bad}");
        }
        let usual = managed(&["batch/job"], false);
        assert!(usual.is_enabled("batch", "Job") && usual.is_enabled("example.com", "Foo"));
        assert!(!usual.is_enabled("jobset.x-k8s.io", "JobSet") && !usual.is_enabled("batch", "CronJob"));
    }
}
