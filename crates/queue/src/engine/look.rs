//! What was seen of a flavor while it was looked at, with all numbers: verdicts, messages and explanations read it.

use muster_tree::Text;

use super::amount::{self, plus};

/// How well a flavor serves, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// Never, or not by any means allowed here.
    NoFit,
    /// By preempting, but there is nobody to preempt.
    NoCandidates,
    /// By preempting in the own queue, too.
    Preempt,
    /// By preempting in other queues only.
    Reclaim,
    /// As things stand.
    Fit,
}

/// What is in the way, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// No flavor suits the pods, or no flavor has the resource.
    NoMatchingFlavor,
    /// More is asked for than there is.
    ExceedsMaxQuota,
    /// Others have it.
    WaitingForQuota,
}

/// What was seen of one resource in one flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceLook {
    /// The resource.
    pub resource: Text,
    /// What this set asks for.
    pub requested: i64,
    /// What earlier sets of the workload take already.
    pub before: i64,
    /// What is free.
    pub available: i64,
    /// What there could be if nobody else had anything.
    pub maximum: i64,
    /// What is missing.
    pub shortfall: i64,
    /// How well it serves.
    pub grade: Grade,
    /// From how high up it would be borrowed.
    pub height: usize,
}

/// What was seen of one flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The flavor.
    pub flavor: Text,
    /// Why the pods cannot use it, if they cannot.
    pub unsuitable: Option<String>,
    /// Its resources.
    pub resources: Vec<ResourceLook>,
}

impl Look {
    /// How well it serves: as its worst resource does.
    pub(super) fn grade(&self) -> Grade {
        let worst = self.resources.iter().map(|it| it.grade).min().unwrap_or(Grade::Fit);
        if self.unsuitable.is_some() { Grade::NoFit } else { worst }
    }

    /// From how high up it would be borrowed.
    pub(super) fn height(&self) -> usize {
        self.resources.iter().map(|it| it.height).max().unwrap_or(0)
    }

    /// What is in the way, if something is.
    pub(super) fn obstacle(&self) -> Obstacle {
        let exceeds = self.resources.iter().any(|it| plus(it.before, it.requested) > it.maximum);
        match (&self.unsuitable, exceeds) {
            (Some(_), _) => Obstacle::NoMatchingFlavor,
            (None, true) => Obstacle::ExceedsMaxQuota,
            (None, false) => Obstacle::WaitingForQuota,
        }
    }

    /// The same in words.
    pub(super) fn sentences(&self) -> Vec<String> {
        if let Some(why) = &self.unsuitable {
            return vec![why.clone()];
        }
        self.resources.iter().filter_map(|it| it.sentence(&self.flavor)).collect()
    }
}

impl ResourceLook {
    fn sentence(&self, flavor: &str) -> Option<String> {
        let (name, value) = (&self.resource, |amount| amount::text(&self.resource, amount));
        if plus(self.before, self.requested) > self.maximum {
            return Some(format!(
                "insufficient quota for {name} in flavor {flavor}, previously considered podsets requests ({}) + \
                 current podset request ({}) > maximum capacity ({})",
                value(self.before),
                value(self.requested),
                value(self.maximum)
            ));
        }
        (self.grade != Grade::Fit).then(|| {
            format!(
                "insufficient unused quota for {name} in flavor {flavor}, {} more needed",
                value(self.shortfall)
            )
        })
    }
}
