//! Who is woken by which change: those whom it may help, and no more of them than it can help.

use crate::Scheduler;
use crate::class::{ClassId, Verdict};
use crate::counter::CounterId;
use crate::queue::Counted;
use crate::reason::Cures;
use crate::table::Row;
use crate::world::{PodId, World};

impl Scheduler {
    /// Wakes whom the changes since the last time may help.
    pub(crate) fn wake(&mut self) {
        let mut rows = std::mem::take(&mut self.world.freed);
        let moved = std::mem::take(&mut self.world.moved);
        let changed = std::mem::take(&mut self.changed);
        let node_event = !changed.is_empty();
        rows.extend(changed);
        rows.sort_unstable();
        rows.dedup();
        let claims = std::mem::take(&mut self.world.claims_moved);
        self.world.watched = self.queue.has_parked();
        if !self.world.watched || (rows.is_empty() && moved.is_empty() && !claims) {
            return;
        }
        let room = !rows.is_empty();
        let changes = Cures { node: node_event, room, pods: room || !moved.is_empty(), claims };
        let mut known: Vec<(ClassId, Counted, usize)> = Vec::new();
        let world = &mut self.world;
        self.queue.wake_apart(changes, |lack| {
            let same = |it: &&(ClassId, Counted, usize)| (it.0, it.1) == (lack.class, lack.counts);
            if let Some((.., room)) = known.iter().find(same) {
                return *room;
            }
            let room = match lack.counts {
                Counted::Above(above) => world.room_above(lack.class, above, &rows),
                Counted::Free => {
                    let free = rows.iter().copied().filter(|row| !world.nominated.contains_key(row));
                    let free: Vec<Row> = free.collect();
                    world.room_on(lack.class, &free)
                }
            };
            known.push((lack.class, lack.counts, room));
            room
        });
        for (class, cures) in self.queue.parked() {
            let many = self.how_many_woken(class, cures, &rows, &moved, node_event);
            if many > 0 {
                self.queue.wake(class, many);
            }
        }
    }

    /// How many parked pods of a class may be helped.
    fn how_many_woken(
        &mut self,
        class_id: ClassId,
        cures: Cures,
        rows: &[Row],
        moved: &[CounterId],
        node_event: bool,
    ) -> usize {
        let class = self.world.class(class_id);
        if class.looks_at_pods() || cures.pods {
            let touches = |counter: &CounterId| {
                class.counters().any(|mine| mine == *counter) || self.world.counts.forbids(*counter)
            };
            let woken = node_event || !rows.is_empty() || moved.iter().any(touches);
            return if woken { usize::MAX } else { 0 };
        }
        self.world.room_on(class_id, rows)
    }
}

impl World {
    /// How many pods of a class have room on these rows when whoever is less important than this is gone.
    fn room_above(&mut self, class_id: ClassId, above: i64, rows: &[Row]) -> usize {
        let mut many: usize = 0;
        for row in rows {
            let (class, table) = self.class_mut(class_id);
            if !table.is_node(*row) || !matches!(class.verdict(table, *row), Verdict::Yes(_)) {
                continue;
            }
            let below: Vec<PodId> =
                self.table.pods(*row).iter().copied().filter(|id| self.rank(*id) < above).collect();
            let held = |resource: usize| -> i64 {
                below.iter().map(|id| self.class(self.pod(*id).class).asked(resource)).sum()
            };
            let each = self.class(class_id).asks.amounts.iter();
            let room =
                each.map(|(resource, amount)| (self.table.left(*row, *resource) + held(*resource)) / amount);
            many = many.saturating_add(usize::try_from(room.min().unwrap_or(0)).unwrap_or(0));
        }
        many
    }

    /// How many pods of a class have room on these rows, each row for itself.
    pub fn room_on(&mut self, class: ClassId, rows: &[Row]) -> usize {
        let (class, table) = self.class_mut(class);
        let mut many: usize = 0;
        for row in rows {
            if !table.is_node(*row) || !matches!(class.verdict(table, *row), Verdict::Yes(_)) {
                continue;
            }
            if table.fits(*row, &class.asks) {
                many = many.saturating_add(usize::try_from(table.room(*row, &class.asks)).unwrap_or(0));
            }
        }
        many
    }
}
