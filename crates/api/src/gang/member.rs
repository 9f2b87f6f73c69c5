//! To which group a pod belongs.

use muster_tree::{Text, Tree};

use crate::meta;
use crate::paths::pod as path;
use crate::words::gang as words;

/// Which marks of pods count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reads {
    /// Those that name a group of the server's form.
    pub groups: bool,
    /// Those that name an entry of a Workload.
    pub entries: bool,
    /// Those of coscheduling.
    pub coscheduling: bool,
    /// Those of Volcano.
    pub volcano: bool,
}

impl Reads {
    /// None of them.
    pub const NONE: Reads = Reads { groups: false, entries: false, coscheduling: false, volcano: false };
}

impl Default for Reads {
    /// All of them.
    fn default() -> Reads {
        Reads { groups: true, entries: true, coscheduling: true, volcano: true }
    }
}

/// The group of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Belongs {
    /// An object of the server's form.
    Native(Text),
    /// An entry of a Workload, of which there may be copies.
    Entry {
        /// The Workload.
        workload: Text,
        /// The entry.
        entry: Text,
        /// Which copy.
        replica: Text,
    },
    /// An object of coscheduling.
    Coscheduling(Text),
    /// An object of Volcano.
    Volcano(Text),
}

impl Belongs {
    /// The name under which the scheduler knows the group; no name of an object has a slash or a colon.
    #[must_use]
    pub fn key(&self) -> Text {
        match self {
            Belongs::Native(name) => name.clone(),
            Belongs::Entry { workload, entry, replica } => {
                Text::from(format!("{workload}/{entry}/{replica}"))
            }
            Belongs::Coscheduling(name) => Text::from(format!("x-k8s:{name}")),
            Belongs::Volcano(name) => Text::from(format!("volcano:{name}")),
        }
    }
}

/// What a pod says of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The group.
    pub belongs: Belongs,
    /// The Workload that the pod names beside its group.
    pub workload: Option<Text>,
}

impl Membership {
    /// Reads a pod; `None` when it is alone. Fields come before marks, and ours before others'.
    #[must_use]
    pub fn of(pod: &Tree, reads: Reads) -> Option<Membership> {
        let native = || of_field(pod).or_else(|| of_annotations(pod));
        let mark = |name: Option<&str>| name.filter(|name| !name.is_empty()).map(Text::from);
        let alone = |belongs: Belongs| Membership { belongs, workload: None };
        let found = if reads.groups { native() } else { None };
        let found = found.or_else(|| if reads.entries { of_entry(pod) } else { None });
        let found = found.or_else(|| {
            let name = mark(meta::label(pod, words::COSCHEDULING)).filter(|_| reads.coscheduling)?;
            Some(alone(Belongs::Coscheduling(name)))
        });
        found.or_else(|| {
            let name = mark(meta::annotation(pod, words::VOLCANO)).filter(|_| reads.volcano)?;
            Some(alone(Belongs::Volcano(name)))
        })
    }
}

fn of_field(pod: &Tree) -> Option<Membership> {
    let said = |at| Some(pod.text_at(at)).filter(|name| !name.is_empty());
    let group = said(path::WORKLOAD_GROUP).or_else(|| said(path::SCHEDULING_GROUP))?;
    Some(Membership { belongs: Belongs::Native(group), workload: said(path::WORKLOAD) })
}

fn of_annotations(pod: &Tree) -> Option<Membership> {
    let said = |name| meta::annotation(pod, name).filter(|value| !value.is_empty()).map(Text::from);
    // Whoever names an entry of a Workload by a field means that.
    if !pod.str_at(path::WORKLOAD_ENTRY).is_empty() {
        return None;
    }
    Some(Membership { belongs: Belongs::Native(said(words::POD_GROUP)?), workload: said(words::WORKLOAD) })
}

fn of_entry(pod: &Tree) -> Option<Membership> {
    let (workload, entry) = (pod.text_at(path::WORKLOAD), pod.text_at(path::WORKLOAD_ENTRY));
    // The name of a group takes the entry's place, also where groups do not count.
    if workload.is_empty() || entry.is_empty() || !pod.str_at(path::WORKLOAD_GROUP).is_empty() {
        return None;
    }
    let replica = pod.text_at(path::WORKLOAD_REPLICA);
    Some(Membership {
        workload: Some(workload.clone()),
        belongs: Belongs::Entry { workload, entry, replica },
    })
}
