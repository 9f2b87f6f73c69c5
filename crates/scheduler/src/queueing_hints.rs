//! Queueing hints: which unschedulable entries a cluster event requeues.
//!
//! Only entries that the event may make schedulable are requeued, and of one equivalence class no more than fit into
//! the resources that were freed: with 10,000 equal pending pods one finished pod must not cause 10,000 cycles.

use crate::Scheduler;
use crate::cache::{PodId, SchedulerCache};
use crate::counter::CounterId;
use crate::equivalence_class::{ClassId, NodeFit};
use crate::node_table::NodeRow;
use crate::queue::CapacityKind;
use crate::reason::QueueingHints;

impl Scheduler {
    /// Requeues the entries that the changes since the last call may make schedulable.
    pub(crate) fn requeue_unschedulable(&mut self) {
        let mut rows = std::mem::take(&mut self.cache.freed_rows);
        let moved = std::mem::take(&mut self.cache.changed_counters);
        let changed = std::mem::take(&mut self.changed);
        let node_event = !changed.is_empty();
        rows.extend(changed);
        rows.sort_unstable();
        rows.dedup();
        let claims = std::mem::take(&mut self.cache.claims_changed);
        // Without unschedulable entries changes need not be recorded: the common case in an idle cluster.
        self.cache.has_unschedulable = self.queue.has_parked();
        if !self.cache.has_unschedulable || (rows.is_empty() && moved.is_empty() && !claims) {
            return;
        }
        let room = !rows.is_empty();
        let changes = QueueingHints { node: node_event, room, pods: room || !moved.is_empty(), claims };
        let mut known: Vec<(ClassId, CapacityKind, usize)> = Vec::new();
        let world = &mut self.cache;
        self.queue.requeue_apart(changes, |lack| {
            let same = |it: &&(ClassId, CapacityKind, usize)| (it.0, it.1) == (lack.class, lack.counts);
            if let Some((.., room)) = known.iter().find(same) {
                return *room;
            }
            let room = match lack.counts {
                CapacityKind::Above(above) => world.capacity_above(lack.class, above, &rows),
                // Nodes with nominated pods are reserved: their free resources belong to other preemptors.
                CapacityKind::Free => {
                    let free = rows.iter().copied().filter(|row| !world.nominated.contains_key(row));
                    let free: Vec<NodeRow> = free.collect();
                    world.capacity_on(lack.class, &free)
                }
            };
            // Many groups share class and priority: the capacity is computed once per event.
            known.push((lack.class, lack.counts, room));
            room
        });
        for (class, cures) in self.queue.parked() {
            let many = self.requeue_count(class, cures, &rows, &moved, node_event);
            if many > 0 {
                self.queue.requeue_class(class, many);
            }
        }
    }

    /// How many unschedulable pods of a class may fit now.
    fn requeue_count(
        &mut self,
        class_id: ClassId,
        cures: QueueingHints,
        rows: &[NodeRow],
        moved: &[CounterId],
        node_event: bool,
    ) -> usize {
        let class = self.cache.class(class_id);
        if class.depends_on_pods() || cures.pods {
            let touches = |counter: &CounterId| {
                class.counters().any(|mine| mine == *counter) || self.cache.counts.is_anti_affinity(*counter)
            };
            let woken = node_event || !rows.is_empty() || moved.iter().any(touches);
            return if woken { usize::MAX } else { 0 };
        }
        self.cache.capacity_on(class_id, rows)
    }
}

impl SchedulerCache {
    /// How many pods of a class fit on these rows if all pods of a lower priority are preempted.
    fn capacity_above(&mut self, class_id: ClassId, above: i64, rows: &[NodeRow]) -> usize {
        let mut many: usize = 0;
        for row in rows {
            let (class, table) = self.class_mut(class_id);
            if !table.is_node(*row) || !matches!(class.node_fit(table, *row), NodeFit::Yes(_)) {
                continue;
            }
            let below: Vec<PodId> =
                self.table.pods(*row).iter().copied().filter(|id| self.rank(*id) < above).collect();
            let held = |resource: usize| -> i64 {
                below.iter().map(|id| self.class(self.pod(*id).class).requested(resource)).sum()
            };
            let each = self.class(class_id).requests.amounts.iter();
            let room =
                each.map(|(resource, amount)| (self.table.left(*row, *resource) + held(*resource)) / amount);
            many = many.saturating_add(usize::try_from(room.min().unwrap_or(0)).unwrap_or(0));
        }
        many
    }

    /// How many pods of a class fit on these rows.
    pub fn capacity_on(&mut self, class: ClassId, rows: &[NodeRow]) -> usize {
        let (class, table) = self.class_mut(class);
        let mut many: usize = 0;
        for row in rows {
            if !table.is_node(*row) || !matches!(class.node_fit(table, *row), NodeFit::Yes(_)) {
                continue;
            }
            if table.fits(*row, &class.requests) {
                many =
                    many.saturating_add(usize::try_from(table.capacity(*row, &class.requests)).unwrap_or(0));
            }
        }
        many
    }
}
