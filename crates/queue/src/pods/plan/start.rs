//! Opening gates: who of an admitted group may run now, and what each pod gets.

use muster_api::event::Severity;
use muster_api::paths::pod as path;
use muster_api::queue::WorkloadFacts;
use muster_api::queue::words::{gates, reasons};
use muster_tree::{Text, Tree};

use super::end::{Ended, admitted_count};
use super::wait::BySet;
use super::{Action, Hold, LATER, Opening, Pass, SOON, SeenWorkload};
use crate::jobs::infos::{self, Info, NotYet};
use crate::jobs::requests::{self, Accounting};
use crate::pods::member::{Member, PodRef};

/// What of a group can be done now.
#[derive(Default)]
struct Turn {
    openings: Vec<Opening>,
    excess: Vec<PodRef>,
    /// Some pod has to wait until what was sent is seen.
    in_doubt: bool,
}

impl Pass<'_> {
    /// Opens the gates of pods for which there is room.
    pub(super) fn start(&mut self, workload: &SeenWorkload, by_set: &BySet<'_>, pods: &[&Member]) {
        let infos = match infos::of_workload(&workload.facts, self.seen.flavor) {
            Ok(infos) => infos,
            Err(NotYet::FlavorMissing(name)) => {
                self.hold(Hold::Flavor(name));
                self.look_again(self.seen.now + LATER);
                return;
            }
            Err(NotYet::NotAdmitted) => return self.lacks_assignment(workload, pods),
            Err(NotYet::Clash(clash)) => return self.fail_to_start(workload, clash.to_string(), pods),
        };
        let mut turn = Turn::default();
        for (set, of_set) in by_set {
            if !of_set.iter().any(|pod| pod.gated) {
                continue;
            }
            let Some(info) = infos.iter().find(|info| info.name == *set) else {
                let why = format!("podSetInfo with the name '{set}' is not found");
                return self.fail_to_start(workload, why, pods);
            };
            if let Err(why) = self.turn(&workload.facts, info, of_set, &mut turn) {
                return self.fail_to_start(workload, why, pods);
            }
        }
        self.take(turn);
    }

    fn take(&mut self, turn: Turn) {
        if !turn.openings.is_empty() {
            self.add(Action::Open(turn.openings));
        }
        if turn.in_doubt {
            self.hold(Hold::UnseenOpenings);
            self.look_again(self.seen.now + SOON);
        }
        self.delete_excess(turn.excess);
    }

    /// Deletes pods that are too many, unless those of an earlier time were not seen gone. Of those only what nobody has heard
    /// of is sent again: a pod that lost its finalizer and not its life would wait for ever.
    pub(super) fn delete_excess(&mut self, mut pods: Vec<PodRef>) {
        if pods.is_empty() {
            return;
        }
        if !self.seen.cleanups.satisfied(&self.seen.key.group()) {
            pods.retain(|pod| self.seen.cleanups.is_unheard(&pod.uid));
        }
        match pods.is_empty() {
            true => self.hold(Hold::UnseenCleanups),
            false => self.add(Action::DeleteExcess(pods)),
        }
    }

    /// One set: pods whose opening was sent count as open, so that nothing is booked twice while the cache is behind.
    fn turn(
        &self,
        workload: &WorkloadFacts,
        info: &Info,
        pods: &[&Member],
        turn: &mut Turn,
    ) -> Result<(), String> {
        let openings = self.seen.openings;
        let count = admitted_count(workload, &info.name) as usize;
        let is_open = |pod: &&Member| !pod.gated && !pod.terminated();
        let in_cache = pods.iter().copied().filter(is_open).count();
        let seen_open = |uid: &Text| pods.iter().any(|pod| pod.this.uid == *uid && !pod.gated);
        let unseen = openings.of(&workload.uid, &info.name).filter(|uid| !seen_open(uid)).count();
        let mut admitted = in_cache + unseen;
        let may_open =
            |pod: &&&Member| pod.gated && pod.deleting.is_none() && !openings.is_under_way(&pod.this.uid);
        for pod in pods.iter().filter(may_open) {
            if openings.counts(&workload.uid, &info.name, &pod.this.uid) {
                // Nobody knows whether it was opened: it is counted as if, and opened once more.
                turn.openings.push(opening(workload, info, pod)?);
            } else if admitted < count && turn.openings.len() < openings.room() {
                turn.openings.push(opening(workload, info, pod)?);
                admitted += 1;
            } else if in_cache < count {
                turn.in_doubt = true;
            } else {
                turn.excess.push(pod.this.clone());
            }
        }
        Ok(())
    }

    /// A set that nothing was given to can never start. Without any admission there is only something to wait for.
    fn lacks_assignment(&mut self, workload: &SeenWorkload, pods: &[&Member]) {
        let facts = &workload.facts;
        let Some(admission) = &facts.admission else { return self.hold(Hold::NotAdmitted) };
        let missing = facts.pod_sets.iter().find(|set| admission.assignment(&set.name).is_none());
        if let Some(set) = missing {
            let why = format!("podSetInfo with the name '{}' is not found", set.name);
            self.fail_to_start(workload, why, pods);
        }
    }

    /// What was admitted can never be put on a pod: that is the end of the Workload, unless others of the group run on what
    /// it holds. Then those that cannot start wait.
    fn fail_to_start(&mut self, workload: &SeenWorkload, why: String, pods: &[&Member]) {
        if pods.iter().any(|pod| pod.at_large() || pod.holds_quota(self.seen.now)) {
            if let Some(pod) = pods.iter().find(|pod| pod.gated) {
                self.warn_once(pod, reasons::ERR_WORKLOAD_COMPOSE, why);
            }
            return;
        }
        self.finish(workload, Ended { reason: reasons::FAILED_TO_START, message: why }, pods);
    }

    /// Why a pod may not start in a set though it is of its role: it asks for more than was reserved.
    pub(super) fn too_big(&self, workload: &WorkloadFacts, set: &str, pod: &Member) -> Option<String> {
        let set = workload.pod_set(set)?;
        let asked = |tree: &Tree| {
            requests::of_pod(&requests::adjusted(tree, self.seen.around), &Accounting::default())
        };
        let reserved = asked(&set.template);
        let more = asked(&pod.tree)
            .into_iter()
            .find(|(name, amount)| *amount > reserved.get(name).copied().unwrap_or(0))?;
        let (resource, wants) = more;
        let has = reserved.get(&resource).copied().unwrap_or(0);
        let text = |amount: i64| muster_api::queue::amount_text(&resource, amount);
        Some(format!(
            "pod asks for {} of {resource}, and pod set '{}' reserves {} for each",
            text(wants),
            set.name,
            text(has)
        ))
    }

    /// Adds pods that are not among the owners of a Workload yet; whether there were any.
    pub(super) fn add_owners(&mut self, workload: &SeenWorkload, pods: &[&Member]) -> bool {
        let new: Vec<Tree> = pods
            .iter()
            .filter(|pod| !workload.knows(pod))
            .map(|pod| crate::jobs::construct::pod_owner(&pod.tree))
            .collect();
        if new.is_empty() {
            return false;
        }
        let message = format!("Added {} owner reference(s)", new.len());
        self.add(Action::AddOwners(workload.this(), new));
        let topic = super::Topic::Workload(workload.this());
        let (severity, reason) = (Severity::Normal, reasons::OWNERS_ADDED);
        self.add(Action::Note(super::Note { topic, severity, reason, message }));
        true
    }
}

/// The one write that lets a pod run: the gate off, and what admission gives on.
fn opening(workload: &WorkloadFacts, info: &Info, pod: &Member) -> Result<Opening, String> {
    let given = info.put_into(&pod.tree).map_err(|clash| clash.to_string())?;
    let admission = workload.admission.as_ref();
    let placed = admission.and_then(|it| it.assignment(&info.name)).is_some_and(|it| !it.topology.is_empty());
    let goes = |gate: &Tree| match gate.str_at(&["name"]) {
        gates::ADMISSION => true,
        gates::TOPOLOGY => !placed,
        _ => false,
    };
    let left: Vec<Tree> = given.items_at(path::GATES).iter().filter(|gate| !goes(gate)).cloned().collect();
    let open = given.with_option(path::GATES, (!left.is_empty()).then(|| Tree::list(left)));
    let cluster_queue = admission.map(|it| it.cluster_queue.as_str()).unwrap_or_default();
    Ok(Opening {
        pod: pod.this.clone(),
        workload: workload.uid.clone(),
        set: info.name.clone(),
        patch: pod.tree.merge_patch_to(&open).unwrap_or_else(Tree::empty_map),
        message: format!("Admitted by clusterQueue {cluster_queue}"),
    })
}
