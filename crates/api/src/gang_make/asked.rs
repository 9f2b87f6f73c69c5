//! What a Job asks for: whether it has a group at all, who makes it, and how it is placed.

use muster_tree::{Text, Tree};

use super::{Maker, is_marked, words};
use crate::meta::{self, Owner};
use crate::paths::job as path;
use crate::{kinds, paths};

const SCHEDULING: &[&str] = &["spec", "scheduling"];
const POLICY: &[&str] = &["spec", "scheduling", "schedulingPolicy"];
const PRIORITY_CLASS: &[&str] = &["spec", "priorityClassName"];
/// What else may stand there, and goes into the template as it is.
const MORE: [&str; 3] = ["disruptionMode", "resourceClaims", "schedulingConstraints"];

/// What the Job controller makes for a Job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Makes {
    /// Nothing: its pods have a group already, or its owner sees to it.
    Nothing,
    /// Both objects.
    Both,
    /// The group, from a template of its owner's Workload.
    Group {
        /// The owner.
        owner: Owner,
        /// The template.
        template: Text,
        /// The group that the group is part of; empty for none.
        parent: Text,
    },
}

/// How the pods of a Job are to be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Each for itself.
    Basic,
    /// Together.
    Gang {
        /// At least so many, if that is said.
        min: Option<u32>,
    },
}

/// What a Job asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct JobAsks {
    /// The Job.
    pub maker: Maker,
    /// What is made for it.
    pub makes: Makes,
    /// How its pods are placed, or why that cannot be told.
    pub wish: Result<Wish, &'static str>,
    /// What else its template says.
    pub more: Tree,
    /// The priority class of its pods.
    pub priority_class: Text,
}

impl JobAsks {
    /// Reads a Job.
    #[must_use]
    pub fn of(job: &Tree) -> JobAsks {
        let template = job.at(path::TEMPLATE).unwrap_or(&Tree::Null);
        let scheduling = job.at(SCHEDULING).unwrap_or(&Tree::Null);
        let more = MORE.iter().filter_map(|key| Some((*key, scheduling.get(key)?.clone())));
        JobAsks {
            maker: Maker::of(&kinds::JOBS, "Job", job),
            makes: makes(job, template),
            wish: job.at(POLICY).map_or(Ok(Wish::Basic), wish),
            more: Tree::map(more.collect::<Vec<_>>()),
            priority_class: template.text_at(PRIORITY_CLASS),
        }
    }
}

fn makes(job: &Tree, template: &Tree) -> Makes {
    if is_marked(template) {
        return Makes::Nothing;
    }
    let Some(owner) = meta::controller(job) else { return Makes::Both };
    let note = |key: &str| job.at(paths::meta::ANNOTATIONS).and_then(|all| all.get(key)?.as_text().cloned());
    match note(words::GROUP_TEMPLATE) {
        Some(template) => {
            Makes::Group { owner, template, parent: note(words::PARENT_GROUP).unwrap_or_default() }
        }
        None => Makes::Nothing,
    }
}

fn wish(policy: &Tree) -> Result<Wish, &'static str> {
    match (policy.get("basic"), policy.get("gang")) {
        (Some(_), None) => Ok(Wish::Basic),
        (None, Some(gang)) => match gang.int_at(&["minCount"]) {
            None => Ok(Wish::Gang { min: None }),
            Some(min) => match u32::try_from(min) {
                Ok(min) if min > 0 => Ok(Wish::Gang { min: Some(min) }),
                _ => Err("spec.scheduling.schedulingPolicy.gang.minCount must be at least 1"),
            },
        },
        _ => Err("spec.scheduling.schedulingPolicy must be one of `basic` and `gang`"),
    }
}
