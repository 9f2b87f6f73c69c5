//! Event handlers: Nodes, Pods, Namespaces, PodDisruptionBudgets, claims, and the outcome of bindings and evictions.

use muster_api::node::NodeFacts;
use muster_api::time::Time;
use muster_tree::Text;

use crate::Scheduler;
use crate::cache::{PodId, PodInfo};
use crate::devices::{DynamicResources, RequeueScope};
use crate::gang::MemberState;
use crate::label::Labels;
use crate::node_table::NodeRow;
use crate::pod::{Budget, Pod, PodKey};
use crate::queue::{EntryId, QueuePosition};
use crate::reason::QueueingHints;
use crate::volumes::VolumeBinder;

impl Scheduler {
    /// A Node was added or updated.
    pub fn update_node(&mut self, facts: NodeFacts) {
        let row = self.cache.table.row(&facts.name);
        if self.cache.table.facts(row) != Some(&facts) {
            self.set_node(row, Some(facts));
        }
    }

    /// A Node was deleted. Pods assumed there are requeued; bound pods are left to the pod garbage collector.
    pub fn delete_node(&mut self, name: &Text) {
        let Some(row) = self.cache.table.find(name) else { return };
        self.set_node(row, None);
        let ours = |id: &&PodId| !self.cache.pod(**id).bound;
        let lost: Vec<PodId> = self.cache.table.pods(row).iter().filter(ours).copied().collect();
        for id in lost {
            self.cache.remove_from_node(id);
            self.enqueue(id);
        }
        // Cloned: clearing a nomination modifies the list.
        let nominated = self.cache.nominated.get(&row).cloned().unwrap_or_default();
        nominated.into_iter().for_each(|id| self.nominate(id, None));
        self.cache.table.release_row(row);
        self.requeue_unschedulable();
    }

    fn set_node(&mut self, row: NodeRow, facts: Option<NodeFacts>) {
        self.cache.count_row(row, -1);
        self.cache.table.set_facts(row, facts);
        let facts = self.cache.table.facts(row);
        self.cache.counts.set_node(row, facts);
        self.cache.count_row(row, 1);
        self.cache.changes += 1;
        self.changed.push(row);
        self.requeue_unschedulable();
    }

    /// The labels of a Namespace, for `namespaceSelector` of affinity terms.
    pub fn update_namespace(&mut self, name: &Text, labels: &Labels) {
        if self.cache.counts.set_namespace(name, labels.clone()) {
            self.cache.recount(|_| {});
            self.queue
                .requeue_apart(QueueingHints { pods: true, ..QueueingHints::default() }, |_| usize::MAX);
            for (class, cures) in self.queue.parked() {
                if cures.pods {
                    self.queue.requeue_class(class, usize::MAX);
                }
            }
        }
    }

    /// Applies a change of volumes; `change` returns whether it may make a pod schedulable.
    pub fn update_volumes(&mut self, change: impl FnOnce(&mut VolumeBinder) -> bool) {
        let helps = change(&mut self.cache.volumes);
        self.claims_changed(helps);
    }

    /// Applies a change of devices or ResourceClaims; `change` returns the pods to requeue.
    pub fn update_devices(&mut self, change: impl FnOnce(&mut DynamicResources) -> RequeueScope) {
        let news = change(&mut self.cache.devices);
        for key in news.pods {
            let pod = self.index.get(&key).map(|id| self.cache.pod(*id));
            if let Some(entry) = pod.and_then(|pod| pod.entry) {
                self.activate(entry);
            }
        }
        self.claims_changed(news.all);
    }

    fn claims_changed(&mut self, helps: bool) {
        self.cache.changes += 1;
        self.cache.claims_changed |= helps;
        self.requeue_unschedulable();
    }

    /// A PodDisruptionBudget was added or updated.
    pub fn update_budget(&mut self, key: &PodKey, budget: Budget) {
        self.budgets.insert(key.clone(), budget);
        self.cache.changes += 1;
    }

    pub fn delete_budget(&mut self, key: &PodKey) {
        self.budgets.remove(key);
        self.cache.changes += 1;
    }

    /// A Pod was added or updated. A terminal pod counts as deleted.
    pub fn update_pod(&mut self, pod: &Pod) {
        if pod.terminal {
            self.delete_pod(&pod.key);
            return;
        }
        if self.is_recreated(pod) {
            self.delete_pod(&pod.key);
        }
        let known = self.index.get(&pod.key).copied();
        let before = known.map(|id| self.membership(id));
        let id = match known {
            Some(id) => {
                self.change_pod(id, pod);
                id
            }
            None => self.add_pod(pod),
        };
        let waits = pod.schedulable && self.cache.pod(id).on.is_none();
        match self.cache.pod(id).entry {
            None if waits => self.enqueue_with_age(id, pod.created),
            Some(entry) if !waits => self.drop_entry(id, entry),
            _ => {}
        }
        self.observe_nomination(id, pod);
        if let Some(team) = self.cache.pod(id).group.filter(|_| before != Some(self.membership(id))) {
            self.members_changed(team);
        }
        self.requeue_unschedulable();
    }

    /// The fields of a pod that its group depends on.
    fn membership(&self, id: PodId) -> (MemberState, i64, bool, Text) {
        let pod = self.cache.pod(id);
        (pod.state(), pod.priority, pod.preempts, pod.scheduler.clone())
    }

    /// Whether this is another pod of the same name: the group of a pod is immutable.
    fn is_recreated(&self, pod: &Pod) -> bool {
        let Some(id) = self.index.get(&pod.key) else { return false };
        let known = self.cache.pod(*id).group.map(|team| &self.cache.groups.of(team).key);
        known != pod.group.as_ref()
    }

    /// The binding of an assumed pod was observed and nothing else changed; `false` if the pod is not assumed there.
    pub fn confirm_bound(&mut self, key: &PodKey, node: &Text) -> bool {
        let Some(id) = self.index.get(key).copied() else { return false };
        let row = self.cache.pod(id).on.filter(|row| self.cache.table.name(*row) == node);
        if row.is_some() {
            self.cache.change(id, |pod| pod.bound = true);
        }
        row.is_some()
    }

    /// `status.startTime` changed: preemption orders victims by it.
    pub fn set_start_time(&mut self, key: &PodKey, at: Option<Time>) {
        if let Some(id) = self.index.get(key).copied() {
            self.cache.pod_mut(id).started = at;
        }
    }

    fn add_pod(&mut self, pod: &Pod) -> PodId {
        let class = self.cache.acquire_class(&pod.requirements);
        let sort = self.cache.counts.acquire_profile(&pod.key.0, &pod.labels, pod.deleting);
        let id = self.free_pods.pop().unwrap_or_else(|| {
            self.cache.pods.push(None);
            PodId::try_from(self.cache.pods.len() - 1).expect("fewer pods than 2^32")
        });
        self.cache.pods[id as usize] = Some(PodInfo {
            key: pod.key.clone(),
            labels: pod.labels.clone(),
            class,
            profile: sort,
            priority: pod.priority,
            preempts: pod.preempts,
            evicted: pod.evicted,
            deleting: pod.deleting,
            started: pod.started,
            on: None,
            bound: false,
            nominated: None,
            nominated_in_status: false,
            group: None,
            gated: pod.gated,
            pre_enqueue_error: pod.pre_enqueue_error.clone(),
            scheduler: pod.scheduler.clone(),
            reported_message: Text::new(),
            created: pod.created,
            failures: 0,
            volumes: pod.volumes.clone(),
            devices: pod.devices.clone(),
            entry: None,
        });
        self.index.insert(pod.key.clone(), id);
        if let Some(group) = &pod.group {
            self.cache.join_group(id, group);
        }
        if !pod.node.is_empty() {
            let row = self.cache.table.row(&pod.node);
            self.cache.pod_mut(id).bound = true;
            self.cache.add_to_node(id, row);
        }
        id
    }

    fn change_pod(&mut self, id: PodId, pod: &Pod) {
        let class = self.cache.acquire_class(&pod.requirements);
        let sort = self.cache.counts.acquire_profile(&pod.key.0, &pod.labels, pod.deleting);
        let old = self.cache.pod(id);
        let was = (old.on, old.class, old.profile);
        // A pod with other requirements, or another pod of the same name, may not fit on the assumed node.
        // An informer may deliver an update that predates the binding: the assumed node stays while the requirements are equal.
        let assumed = old.on.filter(|_| !old.bound && pod.schedulable && old.class == class);
        let on = if pod.node.is_empty() { assumed } else { Some(self.cache.table.row(&pod.node)) };
        let old = self.cache.pod(id);
        let claims = old.volumes != pod.volumes || old.devices != pod.devices;
        let moved = was != (on, class, sort) || old.priority != pod.priority || claims;
        if moved {
            self.cache.remove_from_node(id);
        }
        let (old_class, old_sort) = self.cache.change(id, |row| {
            let old = (row.class, row.profile);
            row.class = class;
            row.profile = sort;
            row.priority = pod.priority;
            row.preempts = pod.preempts;
            // The eviction may be requested but not observed yet.
            row.evicted = pod.evicted || (row.evicted && on.is_some());
            row.deleting = pod.deleting;
            row.started = pod.started;
            row.bound = !pod.node.is_empty();
            row.gated = pod.gated;
            row.pre_enqueue_error.clone_from(&pod.pre_enqueue_error);
            row.scheduler.clone_from(&pod.scheduler);
            if row.labels != pod.labels {
                row.labels.clone_from(&pod.labels);
            }
            row.volumes.clone_from(&pod.volumes);
            row.devices.clone_from(&pod.devices);
            old
        });
        if moved && let Some(on) = on {
            self.cache.add_to_node(id, on);
        }
        self.cache.release_class(old_class);
        self.cache.counts.release_profile(old_sort);
        if (old_class, old_sort) != (class, sort) {
            self.cache.changes += 1;
        }
        if let Some(was_on) = was.0.filter(|_| was.0 != on) {
            self.cache.table.release_row(was_on);
        }
        // The fit error was for the old spec.
        if moved && let Some(entry) = self.cache.pod(id).entry {
            self.reorder(entry);
            self.activate(entry);
        }
    }

    /// A Pod was deleted.
    pub fn delete_pod(&mut self, key: &PodKey) {
        let Some(id) = self.index.remove(key) else { return };
        if let Some(entry) = self.cache.pod(id).entry {
            self.drop_entry(id, entry);
        }
        self.nominate(id, None);
        self.forget_claims(id);
        let on = self.cache.pod(id).on;
        self.cache.remove_from_node(id);
        let team = self.cache.leave_group(id);
        let pod = self.cache.pods[id as usize].take().expect("a numbered pod exists");
        self.cache.release_class(pod.class);
        self.cache.counts.release_profile(pod.profile);
        // The id of its label profile may be reused: a cached fit error must not match the new profile.
        self.cache.changes += 1;
        self.free_pods.push(id);
        if let Some(row) = on {
            if pod.evicted {
                self.victim_deleted(row);
            }
            self.cache.table.release_row(row);
        }
        if let Some(team) = team {
            self.members_changed(team);
        }
        self.requeue_unschedulable();
    }

    /// A victim was deleted: requeues the pods nominated for the node. The eviction of another victim may have been lost,
    /// and only a new scheduling cycle requests it again.
    fn victim_deleted(&mut self, row: NodeRow) {
        let waiting = self.cache.nominated.get(&row).cloned().unwrap_or_default();
        let entries: Vec<EntryId> = waiting.iter().filter_map(|id| self.cache.pod(*id).entry).collect();
        for entry in entries {
            // A group needs the resources of all its victims.
            if self.queue.entry(entry).team.is_none() || !self.preemption_in_progress(entry) {
                self.queue.requeue(entry);
            }
        }
    }

    /// Applies `status.nominatedNodeName` if it is set, or was set before and is cleared now. An unset field does not
    /// clear a nomination whose status update is still in flight.
    fn observe_nomination(&mut self, id: PodId, pod: &Pod) {
        let told = !pod.nominated.is_empty();
        let waits = self.cache.pod(id).on.is_none();
        if told && waits {
            let row = self.cache.table.find(&pod.nominated);
            self.nominate(id, row);
        } else if !waits || self.cache.pod(id).nominated_in_status {
            self.nominate(id, None);
        }
        self.cache.pod_mut(id).nominated_in_status = told;
    }

    /// The binding failed: forgets the assumed pod and requeues it with backoff.
    pub fn binding_failed(&mut self, key: &PodKey, now: Time) {
        let Some(id) = self.index.get(key).copied() else { return };
        let pod = self.cache.pod(id);
        if pod.on.is_none() || pod.bound {
            return;
        }
        self.cache.remove_from_node(id);
        self.enqueue(id);
        self.requeue_with_backoff(id, now);
        self.requeue_unschedulable();
    }

    /// Requeues a pending pod with a backoff that grows with each failure.
    fn requeue_with_backoff(&mut self, id: PodId, now: Time) {
        let pod = self.cache.pod_mut(id);
        pod.failures = pod.failures.saturating_add(1);
        let (entry, failures) = (pod.entry, pod.failures);
        let held = pod.group.is_some_and(|team| self.cache.groups.of(team).held.is_some());
        if let Some(entry) = entry.filter(|_| !held) {
            self.queue.retry_with_backoff(entry, now, failures);
        }
    }

    /// The eviction of a victim failed: pods nominated for its node are requeued with backoff.
    pub fn eviction_failed(&mut self, key: &PodKey, now: Time) {
        let Some(id) = self.index.get(key).copied() else { return };
        self.cache.pod_mut(id).evicted = false;
        self.cache.changes += 1;
        let row = self.cache.pod(id).on;
        let waiting = row.and_then(|row| self.cache.nominated.get(&row)).cloned().unwrap_or_default();
        waiting.into_iter().for_each(|id| self.requeue_with_backoff(id, now));
    }

    pub(crate) fn enqueue(&mut self, id: PodId) {
        let created = self.cache.pod(id).created;
        self.enqueue_with_age(id, created);
    }

    /// Queues a pod as its own entry or as a member of the entry of its group.
    fn enqueue_with_age(&mut self, id: PodId, created: Time) {
        let pod = self.cache.pod(id);
        if let Some(team) = pod.group {
            self.join_entry(id, team, created);
            return;
        }
        let entry = self.queue.add(pod.key.clone(), None, pod.priority, created);
        self.queue.entry_mut(entry).members.push(id);
        self.cache.pod_mut(id).entry = Some(entry);
        self.queue.activate(entry);
    }

    pub(crate) fn reorder(&mut self, entry: EntryId) {
        let members = &self.queue.entry(entry).members;
        let priority = members.iter().map(|id| self.cache.pod(*id).priority).max();
        let created = members.iter().map(|id| self.cache.pod(*id).created).min();
        if let (Some(priority), Some(created)) = (priority, created) {
            let team = self.queue.entry(entry).team;
            // A group keeps the creation time of its first pod, also after that pod was scheduled.
            let created = if team.is_some() { created.min(self.queue.age(entry)) } else { created };
            let own = team.and_then(|team| self.cache.groups.of(team).group()?.priority);
            self.queue.set_order(entry, own.unwrap_or(priority), created);
        }
    }

    fn activate(&mut self, entry: EntryId) {
        let team = self.queue.entry(entry).team;
        if team.is_none_or(|team| self.cache.groups.of(team).held.is_none()) {
            self.queue.activate(entry);
        }
    }

    /// Removes a pod from its entry. If the entry was queued, the capacity it was requeued for may fit another pod of its
    /// class: one more is requeued.
    fn drop_entry(&mut self, id: PodId, entry: EntryId) {
        self.cache.pod_mut(id).entry = None;
        if let Some(team) = self.cache.pod(id).group {
            self.cache.groups.of_mut(team).unreported.remove(&id);
        }
        let class = self.cache.pod(id).class;
        // Read before the entry is removed.
        let undecided = matches!(self.queue.position(entry), QueuePosition::Active | QueuePosition::Backoff);
        self.queue.entry_mut(entry).members.retain(|other| *other != id);
        if self.queue.entry(entry).members.is_empty() {
            self.remove_entry(entry);
        }
        if undecided {
            self.queue.requeue_class(class, 1);
        }
    }
}
