//! The gang scheduling request of a Job: which objects to create for it, and with which policy.

use muster_tree::{Text, Tree};

use super::{GangOwner, consts, names_group};
use crate::meta::{self, OwnerReference};
use crate::paths::job as path;
use crate::{kinds, paths};

const SCHEDULING: &[&str] = &["spec", "scheduling"];
const POLICY: &[&str] = &["spec", "scheduling", "schedulingPolicy"];
const PRIORITY_CLASS: &[&str] = &["spec", "priorityClassName"];
/// Other fields of `spec.scheduling` that are copied into the template.
const MORE: [&str; 3] = ["disruptionMode", "resourceClaims", "schedulingConstraints"];

/// Which gang scheduling objects the Job controller creates for a Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectsToCreate {
    /// None: its pods already name a PodGroup, or its owner creates them.
    Nothing,
    /// The Workload and its PodGroup.
    Both,
    /// Only the PodGroup, from a template of the owner's Workload.
    Group {
        /// Controller owner of the Job.
        owner: OwnerReference,
        /// Name of the template in that Workload.
        template: Text,
        /// The group that the group is part of; empty for none.
        parent: Text,
    },
}

/// The scheduling policy that a Job requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GangRequest {
    /// Pods are scheduled one by one.
    Basic,
    /// Pods are scheduled together.
    Gang {
        /// At least so many, if that is said.
        min: Option<u32>,
    },
}

/// The gang scheduling request of a Job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobGang {
    /// The Job, as owner of the created objects.
    pub owner: GangOwner,
    /// Which objects to create.
    pub objects: ObjectsToCreate,
    /// Requested policy, or why `schedulingPolicy` is invalid.
    pub policy: Result<GangRequest, &'static str>,
    /// Other fields of `spec.scheduling`, copied into the template.
    pub passthrough: Tree,
    /// `priorityClassName` of the pod template.
    pub priority_class: Text,
}

impl JobGang {
    /// Reads the request of a Job.
    #[must_use]
    pub fn of(job: &Tree) -> JobGang {
        let template = job.at(path::TEMPLATE).unwrap_or(&Tree::Null);
        let scheduling = job.at(SCHEDULING).unwrap_or(&Tree::Null);
        let more = MORE.iter().filter_map(|key| Some((*key, scheduling.get(key)?.clone())));
        JobGang {
            owner: GangOwner::of(&kinds::JOBS, "Job", job),
            objects: makes(job, template),
            policy: job.at(POLICY).map_or(Ok(GangRequest::Basic), wish),
            passthrough: Tree::map(more.collect::<Vec<_>>()),
            priority_class: template.text_at(PRIORITY_CLASS),
        }
    }
}

fn makes(job: &Tree, template: &Tree) -> ObjectsToCreate {
    if names_group(template) {
        return ObjectsToCreate::Nothing;
    }
    let Some(owner) = meta::controller_of(job) else { return ObjectsToCreate::Both };
    let note = |key: &str| job.at(paths::meta::ANNOTATIONS).and_then(|all| all.get(key)?.as_text().cloned());
    match note(consts::GROUP_TEMPLATE) {
        Some(template) => {
            ObjectsToCreate::Group { owner, template, parent: note(consts::PARENT_GROUP).unwrap_or_default() }
        }
        None => ObjectsToCreate::Nothing,
    }
}

fn wish(policy: &Tree) -> Result<GangRequest, &'static str> {
    match (policy.get("basic"), policy.get("gang")) {
        (Some(_), None) => Ok(GangRequest::Basic),
        (None, Some(gang)) => match gang.int_at(&["minCount"]) {
            None => Ok(GangRequest::Gang { min: None }),
            Some(min) => match u32::try_from(min) {
                Ok(min) if min > 0 => Ok(GangRequest::Gang { min: Some(min) }),
                _ => Err("spec.scheduling.schedulingPolicy.gang.minCount must be at least 1"),
            },
        },
        _ => Err("spec.scheduling.schedulingPolicy must be one of `basic` and `gang`"),
    }
}
