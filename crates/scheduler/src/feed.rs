//! What the scheduler is told: nodes, pods, namespaces, budgets, and what became of its decisions.

use muster_api::node::NodeFacts;
use muster_api::time::Time;
use muster_tree::Text;

use crate::Scheduler;
use crate::devices::{Devices, News};
use crate::gang::State;
use crate::label::Labels;
use crate::pod::{Budget, Pod, PodKey};
use crate::queue::{EntryId, Spot};
use crate::reason::Cures;
use crate::table::Row;
use crate::volumes::Volumes;
use crate::world::{PodId, PodRow};

impl Scheduler {
    /// A node is there, or changed.
    pub fn node(&mut self, facts: NodeFacts) {
        let row = self.world.table.row(&facts.name);
        if self.world.table.facts(row) != Some(&facts) {
            self.set_node(row, Some(facts));
        }
    }

    /// A node is gone. What we meant to put there is looked at again; what runs there is somebody else's worry.
    pub fn node_gone(&mut self, name: &Text) {
        let Some(row) = self.world.table.find(name) else { return };
        self.set_node(row, None);
        let ours = |id: &&PodId| !self.world.pod(**id).bound;
        let lost: Vec<PodId> = self.world.table.pods(row).iter().filter(ours).copied().collect();
        for id in lost {
            self.world.take(id);
            self.queue_up(id);
        }
        let nominated = self.world.nominated.get(&row).cloned().unwrap_or_default();
        nominated.into_iter().for_each(|id| self.nominate(id, None));
        self.world.table.sweep(row);
        self.wake();
    }

    fn set_node(&mut self, row: Row, facts: Option<NodeFacts>) {
        self.world.count_row(row, -1);
        self.world.table.set_facts(row, facts);
        let facts = self.world.table.facts(row);
        self.world.counts.set_node(row, facts);
        self.world.count_row(row, 1);
        self.world.changes += 1;
        self.changed.push(row);
        self.wake();
    }

    /// The labels of a namespace.
    pub fn namespace(&mut self, name: &Text, labels: &Labels) {
        if self.world.counts.set_namespace(name, labels.clone()) {
            self.world.recount(|_| {});
            self.queue.wake_apart(Cures { pods: true, ..Cures::default() }, |_| usize::MAX);
            for (class, cures) in self.queue.parked() {
                if cures.pods {
                    self.queue.wake(class, usize::MAX);
                }
            }
        }
    }

    /// Something about volumes changed; `change` says whether that may help anybody.
    pub fn volumes(&mut self, change: impl FnOnce(&mut Volumes) -> bool) {
        let helps = change(&mut self.world.volumes);
        self.claims_changed(helps);
    }

    /// Something about devices changed; `change` says whom that may help.
    pub fn devices(&mut self, change: impl FnOnce(&mut Devices) -> News) {
        let news = change(&mut self.world.devices);
        for key in news.pods {
            let pod = self.index.get(&key).map(|id| self.world.pod(*id));
            if let Some(entry) = pod.and_then(|pod| pod.entry) {
                self.activate(entry);
            }
        }
        self.claims_changed(news.everybody);
    }

    fn claims_changed(&mut self, helps: bool) {
        self.world.changes += 1;
        self.world.claims_moved |= helps;
        self.wake();
    }

    /// A disruption budget is there, or changed.
    pub fn budget(&mut self, key: &PodKey, budget: Budget) {
        self.budgets.insert(key.clone(), budget);
        self.world.changes += 1;
    }

    /// A disruption budget is gone.
    pub fn budget_gone(&mut self, key: &PodKey) {
        self.budgets.remove(key);
        self.world.changes += 1;
    }

    /// A pod is there, or changed.
    pub fn pod(&mut self, pod: &Pod) {
        if pod.ended {
            self.pod_gone(&pod.key);
            return;
        }
        if self.is_another(pod) {
            self.pod_gone(&pod.key);
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
        let waits = pod.wants && self.world.pod(id).on.is_none();
        match self.world.pod(id).entry {
            None if waits => self.queue_up_as(id, pod.created),
            Some(entry) if !waits => self.drop_entry(id, entry),
            _ => {}
        }
        self.hear_nomination(id, pod);
        if let Some(team) = self.world.pod(id).team.filter(|_| before != Some(self.membership(id))) {
            self.members_changed(team);
        }
        self.wake();
    }

    /// What of a pod matters to its group.
    fn membership(&self, id: PodId) -> (State, i64, bool, Text) {
        let pod = self.world.pod(id);
        (pod.state(), pod.priority, pod.preempts, pod.scheduler.clone())
    }

    /// Whether a pod is not the one we know: nobody changes groups, so a namesake has come.
    fn is_another(&self, pod: &Pod) -> bool {
        let Some(id) = self.index.get(&pod.key) else { return false };
        let known = self.world.pod(*id).team.map(|team| &self.world.teams.of(team).key);
        known != pod.group.as_ref()
    }

    /// A pod has the node we meant it to have, and nothing else changed; `false` when that is not what we know.
    pub fn confirm(&mut self, key: &PodKey, node: &Text) -> bool {
        let Some(id) = self.index.get(key).copied() else { return false };
        let row = self.world.pod(id).on.filter(|row| self.world.table.name(*row) == node);
        if row.is_some() {
            self.world.change(id, |pod| pod.bound = true);
        }
        row.is_some()
    }

    /// A pod began to run.
    pub fn started(&mut self, key: &PodKey, at: Option<Time>) {
        if let Some(id) = self.index.get(key).copied() {
            self.world.pod_mut(id).started = at;
        }
    }

    fn add_pod(&mut self, pod: &Pod) -> PodId {
        let class = self.world.hire_class(&pod.demand);
        let sort = self.world.counts.sort(&pod.key.0, &pod.labels, pod.deleting);
        let id = self.free_pods.pop().unwrap_or_else(|| {
            self.world.pods.push(None);
            PodId::try_from(self.world.pods.len() - 1).expect("fewer pods than 2^32")
        });
        self.world.pods[id as usize] = Some(PodRow {
            key: pod.key.clone(),
            labels: pod.labels.clone(),
            class,
            sort,
            priority: pod.priority,
            preempts: pod.preempts,
            evicted: pod.evicted,
            deleting: pod.deleting,
            started: pod.started,
            on: None,
            bound: false,
            nominated: None,
            told_nominated: false,
            team: None,
            gated: pod.gated,
            hold: pod.hold.clone(),
            scheduler: pod.scheduler.clone(),
            said: Text::new(),
            created: pod.created,
            failures: 0,
            volumes: pod.volumes.clone(),
            devices: pod.devices.clone(),
            entry: None,
        });
        self.index.insert(pod.key.clone(), id);
        if let Some(group) = &pod.group {
            self.world.enlist(id, group);
        }
        if !pod.node.is_empty() {
            let row = self.world.table.row(&pod.node);
            self.world.pod_mut(id).bound = true;
            self.world.put(id, row);
        }
        id
    }

    fn change_pod(&mut self, id: PodId, pod: &Pod) {
        let class = self.world.hire_class(&pod.demand);
        let sort = self.world.counts.sort(&pod.key.0, &pod.labels, pod.deleting);
        let old = self.world.pod(id);
        let was = (old.on, old.class, old.sort);
        // Another shape (or another pod of the name) may not fit where the former one was to go.
        let assumed = old.on.filter(|_| !old.bound && pod.wants && old.class == class);
        let on = if pod.node.is_empty() { assumed } else { Some(self.world.table.row(&pod.node)) };
        let old = self.world.pod(id);
        let claims = old.volumes != pod.volumes || old.devices != pod.devices;
        let moved = was != (on, class, sort) || old.priority != pod.priority || claims;
        if moved {
            self.world.take(id);
        }
        let (old_class, old_sort) = self.world.change(id, |row| {
            let old = (row.class, row.sort);
            row.class = class;
            row.sort = sort;
            row.priority = pod.priority;
            row.preempts = pod.preempts;
            row.evicted = pod.evicted || (row.evicted && on.is_some());
            row.deleting = pod.deleting;
            row.started = pod.started;
            row.bound = !pod.node.is_empty();
            row.gated = pod.gated;
            row.hold.clone_from(&pod.hold);
            row.scheduler.clone_from(&pod.scheduler);
            if row.labels != pod.labels {
                row.labels.clone_from(&pod.labels);
            }
            row.volumes.clone_from(&pod.volumes);
            row.devices.clone_from(&pod.devices);
            old
        });
        if moved && let Some(on) = on {
            self.world.put(id, on);
        }
        self.world.release_class(old_class);
        self.world.counts.release_sort(old_sort);
        if (old_class, old_sort) != (class, sort) {
            self.world.changes += 1;
        }
        if let Some(was_on) = was.0.filter(|_| was.0 != on) {
            self.world.table.sweep(was_on);
        }
        // Refused as it was; another shape deserves another look.
        if moved && let Some(entry) = self.world.pod(id).entry {
            self.reorder(entry);
            self.activate(entry);
        }
    }

    /// A pod is gone.
    pub fn pod_gone(&mut self, key: &PodKey) {
        let Some(id) = self.index.remove(key) else { return };
        if let Some(entry) = self.world.pod(id).entry {
            self.drop_entry(id, entry);
        }
        self.nominate(id, None);
        self.forget_claims(id);
        let on = self.world.pod(id).on;
        self.world.take(id);
        let team = self.world.discharge(id);
        let pod = self.world.pods[id as usize].take().expect("a numbered pod exists");
        self.world.release_class(pod.class);
        self.world.counts.release_sort(pod.sort);
        // The number of its sort may be another's now: what is remembered of it must not be taken for that one.
        self.world.changes += 1;
        self.free_pods.push(id);
        if let Some(row) = on {
            if pod.evicted {
                self.made_room(row);
            }
            self.world.table.sweep(row);
        }
        if let Some(team) = team {
            self.members_changed(team);
        }
        self.wake();
    }

    /// A victim is gone: those for whom room is being made there look again. The eviction of another victim may have
    /// been lost, and nobody else would ask for it again.
    fn made_room(&mut self, row: Row) {
        let waiting = self.world.nominated.get(&row).cloned().unwrap_or_default();
        let entries: Vec<EntryId> = waiting.iter().filter_map(|id| self.world.pod(*id).entry).collect();
        for entry in entries {
            // A group has use for the room of all victims only.
            if self.queue.entry(entry).team.is_none() || !self.room_under_way(entry) {
                self.queue.wake_parked(entry);
            }
        }
    }

    /// What a pod says of its nomination counts when it says something, or no longer says what it said.
    fn hear_nomination(&mut self, id: PodId, pod: &Pod) {
        let told = !pod.nominated.is_empty();
        let waits = self.world.pod(id).on.is_none();
        if told && waits {
            let row = self.world.table.find(&pod.nominated);
            self.nominate(id, row);
        } else if !waits || self.world.pod(id).told_nominated {
            self.nominate(id, None);
        }
        self.world.pod_mut(id).told_nominated = told;
    }

    /// A decision could not be carried out: the pod is looked at again after a while.
    pub fn retry(&mut self, key: &PodKey, now: Time) {
        let Some(id) = self.index.get(key).copied() else { return };
        let pod = self.world.pod(id);
        if pod.on.is_none() || pod.bound {
            return;
        }
        self.world.take(id);
        self.queue_up(id);
        self.set_back(id, now);
        self.wake();
    }

    /// What was decided about a pod that waits could not be carried out: each time it is set back further.
    fn set_back(&mut self, id: PodId, now: Time) {
        let pod = self.world.pod_mut(id);
        pod.failures = pod.failures.saturating_add(1);
        let (entry, failures) = (pod.entry, pod.failures);
        let held = pod.team.is_some_and(|team| self.world.teams.of(team).held.is_some());
        if let Some(entry) = entry.filter(|_| !held) {
            self.queue.delay(entry, now, failures);
        }
    }

    /// A pod that was to be evicted stays after all: whoever waits for its room is looked at again after a while.
    pub fn spared(&mut self, key: &PodKey, now: Time) {
        let Some(id) = self.index.get(key).copied() else { return };
        self.world.pod_mut(id).evicted = false;
        self.world.changes += 1;
        let row = self.world.pod(id).on;
        let waiting = row.and_then(|row| self.world.nominated.get(&row)).cloned().unwrap_or_default();
        waiting.into_iter().for_each(|id| self.set_back(id, now));
    }

    pub(crate) fn queue_up(&mut self, id: PodId) {
        let created = self.world.pod(id).created;
        self.queue_up_as(id, created);
    }

    /// Gives a pod its place in the queue, alone or in its group's entry.
    fn queue_up_as(&mut self, id: PodId, created: Time) {
        let pod = self.world.pod(id);
        if let Some(team) = pod.team {
            self.join_entry(id, team, created);
            return;
        }
        let entry = self.queue.add(pod.key.clone(), None, pod.priority, created);
        self.queue.entry_mut(entry).members.push(id);
        self.world.pod_mut(id).entry = Some(entry);
        self.queue.activate(entry);
    }

    pub(crate) fn reorder(&mut self, entry: EntryId) {
        let members = &self.queue.entry(entry).members;
        let priority = members.iter().map(|id| self.world.pod(*id).priority).max();
        let created = members.iter().map(|id| self.world.pod(*id).created).min();
        if let (Some(priority), Some(created)) = (priority, created) {
            let team = self.queue.entry(entry).team;
            // A group stays as old as the first of its pods, wherever that one is now.
            let created = if team.is_some() { created.min(self.queue.age(entry)) } else { created };
            let own = team.and_then(|team| self.world.teams.of(team).group()?.priority);
            self.queue.set_order(entry, own.unwrap_or(priority), created);
        }
    }

    fn activate(&mut self, entry: EntryId) {
        let team = self.queue.entry(entry).team;
        if team.is_none_or(|team| self.world.teams.of(team).held.is_none()) {
            self.queue.activate(entry);
        }
    }

    /// A pod no longer waits. Whoever was woken in its stead may have been left asleep: one more is woken.
    fn drop_entry(&mut self, id: PodId, entry: EntryId) {
        self.world.pod_mut(id).entry = None;
        if let Some(team) = self.world.pod(id).team {
            self.world.teams.of_mut(team).unsaid.remove(&id);
        }
        let class = self.world.pod(id).class;
        let undecided = matches!(self.queue.spot(entry), Spot::Active | Spot::Backoff);
        self.queue.entry_mut(entry).members.retain(|other| *other != id);
        if self.queue.entry(entry).members.is_empty() {
            self.dismiss(entry);
        }
        if undecided {
            self.queue.wake(class, 1);
        }
    }
}
