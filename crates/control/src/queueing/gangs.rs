//! Gangs of plain pods: made when their group is admitted, before its gates are opened.

use muster_api::gang_make;
use muster_api::meta;
use muster_api::port::{Act, Call, Guard, Kind, Object, Part};
use muster_api::queue::WorkloadFacts;
use muster_api::queue::words::managers;
use muster_queue::pods::gang::{self, Gang, Seen};
use muster_queue::pods::plan::{Key as PodKey, SeenWorkload};
use muster_tree::{Text, Tree};

use super::pods::key_of;
use super::{Queueing, calls};
use crate::cache::Caches;
use crate::plan::{Key, Step};

/// What becomes of the gates of a group.
pub(super) struct Gates {
    /// Whether they may be opened.
    pub open: bool,
    /// What is done besides.
    pub steps: Vec<Step>,
    /// That its name is another's, in words.
    pub taken: Option<String>,
}

impl Queueing {
    /// Whether these are objects of gangs.
    pub(super) fn is_gang(&self, kind: &Kind) -> bool {
        self.gangs.is_some_and(|gangs| gang_make::kinds(gangs).any(|it| it == kind))
    }

    /// What the gang of a group needs, and whether its pods may start.
    pub(super) fn gang_of(
        &self,
        of: &PodKey,
        pods: &[&Object],
        workloads: &[SeenWorkload],
        caches: &Caches,
    ) -> Gates {
        let free = Gates { open: true, steps: Vec::new(), taken: None };
        let (PodKey::Group { namespace, name }, Some(gangs)) = (of, self.gangs) else { return free };
        let admitted =
            |it: &&WorkloadFacts| it.is_admitted() && !it.is_evicted() && !it.is_finished() && !it.deleting;
        let Some(admitted) = workloads.iter().map(|it| &it.facts).find(admitted) else { return free };
        let find = |kind: &'static Kind| caches.get(kind, namespace, name);
        let pods: Vec<&Tree> = pods.iter().map(|it| &it.tree).collect();
        let decided = gang::decide(&Seen {
            gangs,
            admitted,
            pods: &pods,
            workload: find(gangs.form.workloads()),
            group: gangs.form.groups().and_then(find),
        });
        match decided {
            Gang::Plain => free,
            Gang::There(steps) => Gates { steps: steps.into_iter().map(call).collect(), ..free },
            Gang::First(steps) => {
                Gates { open: false, steps: steps.into_iter().map(call).collect(), taken: None }
            }
            Gang::Taken(message) => Gates { open: false, steps: Vec::new(), taken: Some(message) },
        }
    }
}

fn call(step: gang::Step) -> Step {
    match step {
        gang::Step::Make(kind, object) => {
            let on = meta::target(kind, &object, Part::Main);
            let by = managers::KUEUE.clone();
            Step::One(Call { by, on, guard: Guard::default(), act: Act::Create(object) })
        }
        gang::Step::Patch(kind, object, patch) => calls::merge(kind, &object, Part::Main, patch),
    }
}

/// Whether nothing changed that a group of pods would care for: how a gang fares is the scheduler's business.
pub(super) fn is_only_status(before: Option<&Object>, after: Option<&Object>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return false };
    let same = |path: &[&str]| before.tree.at(path) == after.tree.at(path);
    same(&["spec"]) && same(&["metadata", "ownerReferences"]) && same(&["metadata", "deletionTimestamp"])
}

/// The group of pods that a Workload or PodGroup of this name is for.
pub(super) fn concerned(namespace: &Text, name: &Text) -> Key {
    key_of(&PodKey::Group { namespace: namespace.clone(), name: name.clone() })
}
