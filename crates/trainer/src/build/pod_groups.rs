//! Gang scheduling plugins: coscheduling, Volcano, and the scheduler's own Workload API.
//!
//! Groups of the first two count all pods, initializers included. A native PodGroup contains only the pods that
//! train: it is scheduled all at once or not at all, and pods that start before or after the others would block it
//! for ever.

use std::collections::BTreeMap;
use std::slice;

use muster_api::client::Uid;
use muster_api::consts::gang as marks;
use muster_api::gang::{COSCHEDULING_GROUPS, GangApi, GroupMarker, VOLCANO_GROUPS};
use muster_api::gang_objects::{
    self, GangOwner, GangSupport, NewPodGroup, PodGroupMember, PodGroupTemplate, TemplatePolicy,
    consts as gang_words,
};
use muster_api::paths::{meta, pod};
use muster_api::queue::amounts_tree;
use muster_api::train::Ancestor;
use muster_api::train::consts::{API_VERSION, TRAIN_JOB, labels, names};
use muster_api::train::generated::groups as words;
use muster_api::train::paths::runtime as runtime_path;
use muster_api::{meta as metadata, pod_requests};
use muster_tree::{Text, Tree, tree};

use super::jobset_builder::{JobSetBuilder, PodSetBuilder};
use super::{BuildRequest, RuntimeError};

/// Labels the pods and creates the groups; pod counts must be final.
pub(super) fn build(draft: &mut JobSetBuilder<'_>, asked: &BuildRequest<'_>) -> Result<(), RuntimeError> {
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
        native(draft, asked.gangs.ok_or(RuntimeError::NoGangs)?, asked.workload_uid);
    }
    Ok(())
}

fn mark_all(draft: &mut JobSetBuilder<'_>, place: &[&str], word: &str) {
    let mark = Tree::map([(word, &draft.facts.name)]);
    for set in &mut draft.sets {
        set.change_pods(|pods| {
            let marked =
                pods.at(place).filter(|it| it.is_map()).map_or_else(|| mark.clone(), |old| old.merge(&mark));
            pods.with(place, marked)
        });
    }
}

/// A PodGroup of all pods, with `minMember` and `minResources`.
fn group(draft: &JobSetBuilder<'_>, api_version: &str) -> Tree {
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

fn coscheduling(draft: &JobSetBuilder<'_>) -> Tree {
    let timeout = draft.runtime.int_at(runtime_path::COSCHEDULING_TIMEOUT).unwrap_or(words::TIMEOUT_SECS);
    group(draft, &metadata::api_version(&COSCHEDULING_GROUPS))
        .with(&["spec", "scheduleTimeoutSeconds"], timeout)
}

fn volcano(draft: &JobSetBuilder<'_>) -> Tree {
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

/// Creates the Workload and the PodGroup, and marks the members.
fn native(draft: &mut JobSetBuilder<'_>, gangs: GangSupport, workload_uid: Option<&Uid>) {
    let Some(at) = gang_set(draft) else { return };
    let set = &draft.sets[at];
    let min = set.count.saturating_mul(set.replicas()).max(1);
    let template = PodGroupTemplate::new(words::TEMPLATE, TemplatePolicy::Gang { min });
    let (maker, name) = (maker(draft), draft.facts.name.clone());
    let workload = gang_objects::workload(gangs.api, &maker, &name, slice::from_ref(&template));
    let new = NewPodGroup {
        name: &name,
        workload: &name,
        workload_uid,
        template: &template,
        labels: Tree::empty_map(),
    };
    let group = gangs.api.groups().map(|_| gang_objects::group(gangs.api, &maker, &new));
    let member = PodGroupMember {
        workload: name.clone(),
        template: template.name.clone(),
        group: name.clone(),
        group_uid: None,
    };
    draft.sets[at].change_pods(|pods| member.mark_template(within_jobset(gangs), pods));
    draft.beside.extend([workload].into_iter().chain(group));
}

/// How the pod templates of a JobSet are marked: its CRD has the pod field of the released API and prunes that of the
/// proposal, without which the pods would not be a gang at all.
fn within_jobset(gangs: GangSupport) -> GangSupport {
    match gangs.api {
        GangApi::Proposal => GangSupport { marker: GroupMarker::Annotations, ..gangs },
        _ => gangs,
    }
}

/// The replicatedJob of the gang: with MPI the nodes, because the launcher starts only when they are ready.
fn gang_set(draft: &JobSetBuilder<'_>) -> Option<usize> {
    let place = |is_it: &dyn Fn(&PodSetBuilder) -> bool| draft.sets.iter().position(is_it);
    let nodes = draft.runtime.at(runtime_path::MPI).and_then(|_| place(&|set| set.name == names::NODE));
    nodes.or_else(|| place(&|set| set.step == Some(Ancestor::Trainer)))
}

fn maker(draft: &JobSetBuilder<'_>) -> GangOwner {
    GangOwner {
        api_version: API_VERSION.into(),
        kind: TRAIN_JOB,
        namespace: draft.facts.namespace.clone(),
        name: draft.facts.name.clone(),
        uid: draft.facts.uid.clone(),
    }
}
