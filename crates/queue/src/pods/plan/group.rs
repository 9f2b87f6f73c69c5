//! A group of pods and its Workload.

use muster_api::meta;
use muster_api::queue::WorkloadFacts;
use muster_api::queue::words::{labels, messages, reasons};
use muster_tree::Text;

use super::end::{Ended, ended, is_of_group};
use super::matching::{Match, fill, max_exec, sort_active};
use super::wait::{BySet, absent};
use super::{Action, Hold, Key, LATER, Note, Pass, Plea, SeenWorkload, Topic, any_holds, stop};
use crate::jobs::construct::{self, Making};
use crate::jobs::priority::{self, Asked};
use crate::pods::compose::{Lack, compose};
use crate::pods::group::{Agreement, Size, agree, set_of};
use crate::pods::member::{Member, PodRef};

/// Decides about a group.
pub(super) fn run(pass: &mut Pass<'_>, name: &Text, ours: &[&Member]) {
    let seen = pass.seen;
    if ours.is_empty() {
        return pass.without_pods();
    }
    let workload = seen.workloads.iter().find(|workload| workload.facts.name == *name);
    if let Some(workload) = workload.filter(|workload| !is_of_group(&workload.facts)) {
        return conflict(pass, workload, ours);
    }
    let pods: Vec<&Member> = ours.iter().copied().filter(|pod| !pod.let_go()).collect();
    let said = agree(name, &pods, workload.map(|workload| &workload.facts));
    match workload {
        None => without_workload(pass, &said, &pods),
        Some(workload) if workload.facts.is_finished() => finished(pass, workload, &said, &pods),
        Some(workload) if workload.facts.deleting => pass.follow_deleted(workload, &pods),
        Some(workload) => with_workload(pass, workload, &said, &pods),
    }
}

/// A stranger's Workload has the name: it is left alone, and no pod is stuck because of it.
fn conflict(pass: &mut Pass<'_>, workload: &SeenWorkload, pods: &[&Member]) {
    let name = &workload.facts.name;
    pass.let_go(pods.iter().copied().filter(|pod| pod.inactive() || pod.terminated()));
    let message = format!(
        "A Workload named \"{name}\" already exists but is not a pod group workload; this pod group cannot be admitted"
    );
    if let Some(pod) = pods.iter().find(|pod| !pod.terminated()) {
        pass.warn_once(pod, reasons::WORKLOAD_NAME_CONFLICT, message);
    }
    pass.hold(Hold::NameConflict(name.clone()));
}

/// Nobody has made a Workload: makes one when the pods are there that it takes.
fn without_workload(pass: &mut Pass<'_>, said: &Agreement, pods: &[&Member]) {
    let is_total = said.group.size.is_total();
    let any_alive = pods.iter().any(|pod| !pod.terminated());
    let is_over = |pod: &Member| pod.inactive() || (pod.terminated() && !(is_total && any_alive));
    pass.let_go(pods.iter().copied().filter(|pod| is_over(pod)));
    if pass.stop(pods, reasons::NO_MATCHING_WORKLOAD, stop::MISSING) {
        return;
    }
    if any_holds(pods, pass.seen.now) {
        pass.hold(Hold::StillActive);
        return pass.look_when_over(pods);
    }
    let mut active: Vec<&Member> =
        pods.iter().copied().filter(|pod| !is_over(pod) && pod.deleting.is_none()).collect();
    if !active.iter().any(|pod| !pod.terminated()) {
        return;
    }
    if let Some((pod, words)) = active.iter().find_map(|pod| Some((*pod, said.dissent.get(&pod.this.uid)?))) {
        pass.warn_once(pod, reasons::ERR_WORKLOAD_COMPOSE, words.clone());
        return pass.hold(Hold::Compose(words.clone()));
    }
    if let Size::Total(total) = said.group.size
        && !said.group.fast
        && active.len() > total as usize
    {
        sort_active(&mut active);
        let excess = active.split_off(total as usize);
        return pass.delete_excess(excess.iter().map(|pod| pod.this.clone()).collect());
    }
    if said.group.prebuilt {
        return pass.hold(Hold::Prebuilt(said.group.name.clone()));
    }
    match compose(&said.group, &active) {
        Err(lack) => lacks(pass, &said.group.name, &lack, &active),
        Ok(sets) => {
            let (name, queue) = (said.group.name.clone(), said.group.queue.clone());
            make(pass, &Plea { name, queue, sets, pods: active });
        }
    }
}

/// Tells one pod what is missing, or wrong.
fn lacks(pass: &mut Pass<'_>, name: &Text, lack: &Lack, active: &[&Member]) {
    let words = lack.words(name);
    let told = active.iter().find(|pod| pod.gated).or(active.first());
    if let Some(pod) = told {
        pass.warn_once(pod, reasons::ERR_WORKLOAD_COMPOSE, words.clone());
    }
    pass.hold(Hold::Compose(words));
}

/// The Workload as it would be made; `None` when it cannot be, which is told.
fn made(pass: &mut Pass<'_>, plea: &Plea<'_>) -> Option<muster_api::queue::NewWorkload> {
    let seen = pass.seen;
    let first = plea.pods.first()?;
    let label = plea.pods.iter().find_map(|pod| meta::label(&pod.tree, labels::PRIORITY_CLASS));
    let of_pods: Vec<Text> =
        plea.sets.iter().map(|set| set.template.text_at(muster_api::paths::pod::PRIORITY_CLASS)).collect();
    let asked = Asked { label: label.unwrap_or_default(), of_job: "", of_pods: &of_pods };
    let priority = match priority::resolve(asked, seen.classes) {
        Ok(priority) => priority,
        Err(missing) => {
            let name = missing.0.name;
            let words = format!("{} {name} not found", missing.0.kind);
            pass.warn_once(first, reasons::PRIORITY_CLASS_NOT_FOUND, words);
            pass.hold(Hold::PriorityClass(name));
            pass.look_again(seen.now + LATER);
            return None;
        }
    };
    let making = Making {
        name: plea.name.clone(),
        queue: plea.queue.clone(),
        pod_sets: plea.sets.clone(),
        priority,
        label_keys: &seen.settings.label_keys,
    };
    if matches!(seen.key, Key::Pod { .. }) {
        return Some(construct::of_object("v1", "Pod", &first.tree, making));
    }
    let trees: Vec<&muster_tree::Tree> = plea.pods.iter().map(|pod| &pod.tree).collect();
    match construct::of_group(&trees, making) {
        Ok(made) => Some(made),
        Err(why) => {
            pass.warn_once(first, reasons::ERR_WORKLOAD_COMPOSE, why.to_string());
            pass.hold(Hold::Compose(why.to_string()));
            None
        }
    }
}

/// Makes the Workload, and tells.
pub(super) fn make(pass: &mut Pass<'_>, plea: &Plea<'_>) {
    let Some(made) = made(pass, plea) else { return };
    let Some(first) = plea.pods.first() else { return };
    let note = Note {
        topic: Topic::Pod(first.this.clone()),
        severity: muster_api::event::Severity::Normal,
        reason: reasons::CREATED_WORKLOAD,
        message: format!("Created Workload: {}", pass.full_name(&plea.name)),
    };
    pass.add(Action::CreateWorkload(made.tree(), note));
}

/// Overwrites the spec of a Workload that nothing was given to, and tells.
pub(super) fn rewrite(pass: &mut Pass<'_>, workload: &SeenWorkload, plea: &Plea<'_>) {
    let Some(made) = made(pass, plea) else { return };
    pass.add(Action::RewriteWorkload(workload.this(), made.spec()));
    if let Some(first) = plea.pods.first() {
        let message =
            format!("Updated not matching Workload for suspended job: {}", pass.full_name(&plea.name));
        pass.note(first, muster_api::event::Severity::Normal, reasons::UPDATED_WORKLOAD, message);
    }
}

/// The Workload has ended: its pods are let go, and it is, too. Pods that it does not know begin anew, unless the user made it:
/// then only the user can make another.
fn finished(pass: &mut Pass<'_>, workload: &SeenWorkload, said: &Agreement, pods: &[&Member]) {
    let is_new = |pod: &Member| !pod.terminated() && pod.deleting.is_none() && !workload.knows(pod);
    pass.let_go(pods.iter().copied().filter(|pod| !is_new(pod)));
    let begins = pods.iter().any(|pod| is_new(pod) && !said.dissent.contains_key(&pod.this.uid));
    if begins && !said.group.prebuilt && !workload.facts.deleting {
        pass.add(Action::DeleteWorkload(workload.this()));
    } else {
        pass.let_workload_go(workload);
    }
}

/// What a pod is to the Workload of its group.
struct Places<'p> {
    by_set: BySet<'p>,
    /// Those that belong to a set and say nothing else.
    members: Vec<&'p Member>,
    /// Those that do not, and why.
    astray: Vec<(&'p Member, String)>,
}

fn places<'p>(pass: &Pass<'_>, workload: &SeenWorkload, said: &Agreement, pods: &[&'p Member]) -> Places<'p> {
    let mut places = Places { by_set: BySet::new(), members: Vec::new(), astray: Vec::new() };
    for pod in pods.iter().copied() {
        let set = set_of(&said.group, &workload.facts, pod);
        let wrong = match (said.dissent.get(&pod.this.uid), set) {
            // What disagrees with what runs only matters while it waits to run.
            (Some(words), _) if pod.gated => Some(words.clone()),
            // While nothing was given the Workload is made anew with this role; later the role has come too late.
            (_, None) if said.group.size.is_total() && !workload.facts.has_quota() => None,
            (_, None) if said.group.size.is_total() => Some(format!(
                "no pod set of workload '{}' is of the role '{}'",
                workload.facts.name, pod.hash
            )),
            (_, None) => {
                let role = pod.decl.role.as_deref().unwrap_or_default();
                Some(format!("pod role '{role}' is not declared in the group"))
            }
            (_, Some(set)) if pod.gated => pass.too_big(&workload.facts, set, pod),
            (_, Some(_)) => None,
        };
        match (wrong, set) {
            (Some(words), _) => places.astray.push((pod, words)),
            (None, Some(set)) => {
                places.by_set.entry(set.clone()).or_default().push(pod);
                places.members.push(pod);
            }
            (None, None) => places.members.push(pod),
        }
    }
    places
}

/// The Workload lives: brings it and its pods together, step by step.
fn with_workload(pass: &mut Pass<'_>, workload: &SeenWorkload, said: &Agreement, pods: &[&Member]) {
    let facts = &workload.facts;
    let places = places(pass, workload, said, pods);
    if said.group.prebuilt && (facts.pod_sets.iter().any(|set| set.min_count.is_some()) || !said.fits) {
        return out_of_sync(pass, workload, pods);
    }
    let found = match said.group.size.is_total() {
        true => fill(&said.group, facts, &places.members, &places.by_set, pass.seen.now),
        false => Match { matches: said.fits, ..Match::default() },
    };
    if !found.matches {
        return not_matching(pass, workload, said, pods);
    }
    if let Some(end) = ended(&said.group, facts, &places.members) {
        return pass.finish(workload, end, pods);
    }
    if taken_away(facts, pods, pass.seen.now) {
        return pass.let_go(pods.iter().copied());
    }
    if !pass.seen.cleanups.satisfied(&pass.seen.key.group()) {
        pass.hold(Hold::UnseenCleanups);
        let cleanups = pass.seen.cleanups;
        let is_unheard = |pod: &&&Member| cleanups.is_unheard(&pod.this.uid);
        let is_over = |pod: &&&Member| pod.deleting.is_some() || pod.terminated();
        pass.let_go(pods.iter().filter(is_over).filter(is_unheard).copied());
        if said.group.size.is_total() {
            let again = found.excess.iter().filter(is_unheard).map(|pod| pod.this.clone());
            return pass.delete_excess(again.collect());
        }
    } else if tidy(pass, workload, said, &places, &found) {
        return;
    }
    let absent = match said.group.size.is_total() {
        true => found.absent,
        false => absent(&said.group, facts, &places.by_set),
    };
    if pass.tell_waiting(workload, absent)
        || pass.tell_reclaimable(&said.group, workload, &places.by_set)
        || pass.tell_ready(workload, &places.members)
        || pass.follow_priority(workload, &places.members)
    {
        return;
    }
    fare(pass, workload, said, &places, pods);
}

/// Starts, stops or waits, by what the Workload was given.
fn fare(
    pass: &mut Pass<'_>,
    workload: &SeenWorkload,
    said: &Agreement,
    places: &Places<'_>,
    pods: &[&Member],
) {
    let facts = &workload.facts;
    if facts.is_evicted() && pass.evict(workload, pods) {
        return;
    }
    for (pod, words) in places.astray.iter().filter(|(pod, _)| pod.gated && pod.deleting.is_none()) {
        pass.warn_once(pod, reasons::ERR_WORKLOAD_COMPOSE, words.clone());
    }
    if facts.is_admitted() && !facts.is_evicted() {
        return pass.start(workload, &places.by_set, &places.members);
    }
    pass.stop_unadmitted(pods);
    pass.tell_checks(workload, &places.members);
    if !said.group.serving {
        pass.follow_queue(workload, &said.group.queue, &places.members);
    }
}

/// Makes new pods owners, deletes what is too many and lets go what was replaced; whether that ends the look.
fn tidy(
    pass: &mut Pass<'_>,
    workload: &SeenWorkload,
    said: &Agreement,
    places: &Places<'_>,
    found: &Match<'_>,
) -> bool {
    let staying: Vec<&Member> = places
        .members
        .iter()
        .copied()
        .filter(|pod| found.excess.iter().all(|it| it.this != pod.this))
        .collect();
    let added = pass.add_owners(workload, &staying);
    let excess: Vec<PodRef> = found.excess.iter().map(|pod| pod.this.clone()).collect();
    let deletes = !excess.is_empty();
    pass.delete_excess(excess);
    let replaced: Vec<&Member> = match said.group.size.is_total() {
        true => found.replaced.clone(),
        false => dispensable(&workload.facts, places),
    };
    pass.let_go(replaced);
    added || deletes
}

/// Pods that are let go before the end where all that ended are counted: those that we stopped, those that never had a
/// node, and those whose set has enough others.
fn dispensable<'p>(workload: &WorkloadFacts, places: &Places<'p>) -> Vec<&'p Member> {
    let mut all = Vec::new();
    let astray = places.astray.iter().map(|(pod, _)| *pod);
    all.extend(astray.filter(|pod| pod.stillborn() || pod.terminated()));
    for (set, pods) in &places.by_set {
        let count = super::end::admitted_count(workload, set) as usize;
        let mut held = pods.iter().filter(|pod| pod.finalizer && pod.deleting.is_none()).count();
        for pod in pods.iter().filter(|pod| pod.finalizer) {
            let ended_by_us = pod.ended_stopped();
            let replaced = pod.deleting.is_some() && pod.terminated() && held >= count;
            if ended_by_us || pod.stillborn() || replaced {
                all.push(*pod);
            } else if pod.deleting.is_some() {
                // The next one may only go if there are enough besides this one, which stays.
                held += 1;
            }
        }
    }
    all
}

/// Whether everybody is being deleted and nothing runs, and nobody will come and replace them: it was not us who deleted
/// them, or it was for good.
fn taken_away(workload: &WorkloadFacts, pods: &[&Member], now: muster_api::time::Time) -> bool {
    let for_good = !workload.active && !workload.has_quota();
    !pods.is_empty()
        && pods.iter().all(|pod| pod.deleting.is_some() && (!pod.stopped || for_good))
        && pods.iter().all(|pod| pod.terminated() || pod.stillborn())
        && !any_holds(pods, now)
}

/// The user's own Workload is not that of the pods.
fn out_of_sync(pass: &mut Pass<'_>, workload: &SeenWorkload, pods: &[&Member]) {
    let end = Ended { reason: reasons::OUT_OF_SYNC, message: messages::OUT_OF_SYNC.to_owned() };
    pass.finish(workload, end, pods);
}

/// Whether a Workload is what these pods would be made into.
fn is_right(workload: &WorkloadFacts, plea: &Plea<'_>) -> bool {
    let sets = plea.sets.iter().map(|set| (&set.name, set.count));
    workload.name == plea.name
        && sets.eq(workload.pod_sets.iter().map(|set| (&set.name, set.count)))
        && max_exec(&plea.pods) == workload.max_exec_secs
}

/// The Workload is another's than these pods': it is made anew.
fn not_matching(pass: &mut Pass<'_>, workload: &SeenWorkload, said: &Agreement, pods: &[&Member]) {
    if pass.stop(pods, reasons::NO_MATCHING_WORKLOAD, stop::NOT_MATCHING) {
        return;
    }
    if any_holds(pods, pass.seen.now) {
        pass.hold(Hold::StillActive);
        return pass.look_when_over(pods);
    }
    let is_total = said.group.size.is_total();
    let is_alive =
        |pod: &Member| !pod.inactive() && pod.deleting.is_none() && (is_total || !pod.terminated());
    let mut alive: Vec<&Member> = pods.iter().copied().filter(|pod| is_alive(pod)).collect();
    let mut too_many = Vec::new();
    if let Size::Total(total) = said.group.size {
        sort_active(&mut alive);
        too_many = alive.split_off(alive.len().min(total as usize));
    }
    let waits = !workload.facts.has_quota() && alive.iter().any(|pod| pod.gated);
    let agreed = alive.iter().all(|pod| !said.dissent.contains_key(&pod.this.uid));
    if waits
        && agreed
        && let Ok(sets) = compose(&said.group, &alive)
    {
        let (name, queue) = (said.group.name.clone(), said.group.queue.clone());
        let plea = Plea { name, queue, sets, pods: alive };
        if is_total && is_right(&workload.facts, &plea) {
            // Made anew it would be the same, again and again: what does not match are pods that are too many.
            return pass.delete_excess(too_many.iter().map(|pod| pod.this.clone()).collect());
        }
        return rewrite(pass, workload, &plea);
    }
    pass.delete_not_matching(workload, pods.first().copied());
}
