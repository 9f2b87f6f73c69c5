//! Pods that are placed together: by coscheduling, by Volcano, or by the scheduler's own gangs.
//!
//! The first two count all pods, initializers included. A gang of the scheduler's own is made of the pods that train:
//! a gang is there at once or not at all, and what starts before or after it would keep it waiting for ever.

use std::collections::BTreeMap;
use std::slice;

use muster_api::gang::{COSCHEDULING_GROUPS, Form, Mark, VOLCANO_GROUPS};
use muster_api::gang_make::{self, Gangs, Maker, Member, NewGroup, Policy, Template, words as gang_words};
use muster_api::paths::{meta, pod};
use muster_api::port::Uid;
use muster_api::queue::amounts_tree;
use muster_api::train::Ancestor;
use muster_api::train::made::groups as words;
use muster_api::train::paths::runtime as runtime_path;
use muster_api::train::words::{API_VERSION, TRAIN_JOB, labels, names};
use muster_api::words::gang as marks;
use muster_api::{meta as metadata, pod_requests};
use muster_tree::{Text, Tree, tree};

use super::draft::{Draft, Set};
use super::{Asked, Error};

/// Marks pods, and makes the groups. Numbers of pods are settled.
pub(super) fn build(draft: &mut Draft<'_>, asked: &Asked<'_>) -> Result<(), Error> {
    if draft.runtime.at(runtime_path::COSCHEDULING).is_some() {
        mark_all(draft, meta::LABELS, marks::COSCHEDULING);
        let group = coscheduling(draft);
        draft.beside.push(group);
    }
    if draft.runtime.at(runtime_path::VOLCANO).is_some() {
        mark_all(draft, meta::ANNOTATIONS, marks::VOLCANO);
        let group = volcano(draft);
        draft.beside.push(group);
    }
    if draft.runtime.at(runtime_path::WORKLOAD).is_some() {
        native(draft, asked.gangs.ok_or(Error::NoGangs)?, asked.workload_uid);
    }
    Ok(())
}

fn mark_all(draft: &mut Draft<'_>, place: &[&str], word: &str) {
    let mark = Tree::map([(word, &draft.facts.name)]);
    for set in &mut draft.sets {
        set.change_pods(|pods| {
            let marked =
                pods.at(place).filter(|it| it.is_map()).map_or_else(|| mark.clone(), |old| old.merge(&mark));
            pods.with(place, marked)
        });
    }
}

/// A group of all pods: how many, and what they need together.
fn group(draft: &Draft<'_>, api_version: &str) -> Tree {
    let members = draft.sets.iter().fold(0_u32, |sum, set| sum.saturating_add(set.count));
    let mut needs: BTreeMap<Text, i64> = BTreeMap::new();
    for set in &draft.sets {
        for (name, amount) in pod_requests::effective(&set.pods(), &[]) {
            let sum = needs.entry(name).or_default();
            *sum = sum.saturating_add(amount.saturating_mul(set.count.into()));
        }
    }
    draft
        .object(api_version, gang_words::GROUP_KIND, &draft.facts.name)
        .with(&["spec", "minMember"], members)
        .with_option(&["spec", "minResources"], (!needs.is_empty()).then(|| amounts_tree(&needs)))
}

fn coscheduling(draft: &Draft<'_>) -> Tree {
    let timeout = draft.runtime.int_at(runtime_path::COSCHEDULING_TIMEOUT).unwrap_or(words::TIMEOUT_SECS);
    group(draft, &metadata::api_version(&COSCHEDULING_GROUPS))
        .with(&["spec", "scheduleTimeoutSeconds"], timeout)
}

fn volcano(draft: &Draft<'_>) -> Tree {
    let classes = draft.sets.iter().map(|set| set.pods().text_at(pod::PRIORITY_CLASS));
    let class = classes.rev().find(|it| !it.is_empty());
    let queue = metadata::annotation(&draft.jobset, labels::VOLCANO_QUEUE);
    let topology = draft.runtime.at(runtime_path::VOLCANO_TOPOLOGY).map(|said| {
        let usual = tree!({"mode": words::TOPOLOGY_MODE, "highestTierAllowed": words::TOPOLOGY_TIER});
        usual.merge(said)
    });
    group(draft, &metadata::api_version(&VOLCANO_GROUPS))
        .with_option(&["spec", "queue"], queue.map(Tree::from))
        .with_option(&["spec", "priorityClassName"], class.map(Tree::from))
        .with_option(&["spec", "networkTopology"], topology)
}

/// The Workload, the group, and its members.
fn native(draft: &mut Draft<'_>, gangs: Gangs, workload_uid: Option<&Uid>) {
    let Some(at) = gang_set(draft) else { return };
    let set = &draft.sets[at];
    let min = set.count.saturating_mul(set.replicas()).max(1);
    let template = Template::new(words::TEMPLATE, Policy::Gang { min });
    let (maker, name) = (maker(draft), draft.facts.name.clone());
    let workload = gang_make::workload(gangs.form, &maker, &name, slice::from_ref(&template));
    let new = NewGroup {
        name: &name,
        workload: &name,
        workload_uid,
        template: &template,
        labels: Tree::empty_map(),
    };
    let group = gangs.form.groups().map(|_| gang_make::group(gangs.form, &maker, &new));
    let member = Member {
        workload: name.clone(),
        template: template.name.clone(),
        group: name.clone(),
        group_uid: None,
    };
    draft.sets[at].change_pods(|pods| member.mark(within_jobset(gangs), pods));
    draft.beside.extend([workload].into_iter().chain(group));
}

/// How the pods of a JobSet are marked. Its definition knows the field of the released form and drops that of the proposed
/// one, with which the pods would not be a gang at all.
fn within_jobset(gangs: Gangs) -> Gangs {
    match gangs.form {
        Form::Proposal => Gangs { mark: Mark::Annotations, ..gangs },
        _ => gangs,
    }
}

/// The set that trains: with MPI the nodes, since the launcher comes only when they are ready.
fn gang_set(draft: &Draft<'_>) -> Option<usize> {
    let place = |is_it: &dyn Fn(&Set) -> bool| draft.sets.iter().position(is_it);
    let nodes = draft.runtime.at(runtime_path::MPI).and_then(|_| place(&|set| set.name == names::NODE));
    nodes.or_else(|| place(&|set| set.step == Some(Ancestor::Trainer)))
}

fn maker(draft: &Draft<'_>) -> Maker {
    Maker {
        api_version: API_VERSION.into(),
        kind: TRAIN_JOB,
        namespace: draft.facts.namespace.clone(),
        name: draft.facts.name.clone(),
        uid: draft.facts.uid.clone(),
    }
}
