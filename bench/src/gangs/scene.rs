//! What is played: how many gangs of what shape on how many nodes.

use muster_api::node::{NodeFacts, simulated_node};
use muster_scheduler::{DisruptionMode, GroupSpec, SchedulingPolicy};
use muster_tree::{Text, Tree, tree};

/// Where nodes are in the scenes that do not ask how cost grows.
const NODES: usize = 5_000;
const NODE_MILLI: usize = 64_000;
const ZONES: usize = 10;
/// What one pod of a gang asks for where nothing else is said.
const MILLI: usize = 500;
/// Nodes and victims where room has to be made: every node is full of them.
const ROOM_NODES: usize = 100;
const VICTIMS_EACH: usize = 10;

/// Parts of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// One gang at a time.
    One,
    Many,
    /// Pod shapes that occur once.
    New,
    /// Others have to go.
    Room,
    /// There is no place.
    None,
    Nodes,
    /// More pods in a gang.
    Size,
    Gangs,
}

/// What is on the nodes before the gangs come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    Empty,
    /// Pods of many sizes: hardly two nodes have the same left.
    Uneven,
    /// Nodes are full of pods alone that may be evicted.
    Full,
    /// The same, in groups over ten nodes that go as a whole.
    FullOfGroups,
}

/// What one pod asks for, by the number of its gang over all rounds and its own in it.
pub type GangShape = fn(usize, usize) -> Tree;

/// One line of the table, or two where room is made.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    pub block: Block,
    pub what: &'static str,
    pub nodes: usize,
    pub before: Before,
    /// Gangs that come together.
    pub gangs: usize,
    pub each: usize,
    pub rounds: usize,
    pub shape: GangShape,
}

impl Block {
    pub const ALL: [Block; 8] = [
        Block::One,
        Block::Many,
        Block::New,
        Block::Room,
        Block::None,
        Block::Nodes,
        Block::Size,
        Block::Gangs,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Block::One => "one gang at a time",
            Block::Many => "gangs that come together",
            Block::New => "shapes never seen before",
            Block::Room => "room has to be made",
            Block::None => "there is no place",
            Block::Nodes => "more nodes",
            Block::Size => "more pods in a gang",
            Block::Gangs => "more gangs",
        }
    }

    /// Whether its lines say how cost grows.
    pub fn grows(self) -> bool {
        matches!(self, Block::Nodes | Block::Size | Block::Gangs)
    }

    /// Its scenes; `quick` plays each a few times only.
    pub fn scenes(self, quick: bool) -> Vec<Scene> {
        let plain = Scene {
            block: self,
            what: "",
            nodes: NODES,
            before: Before::Empty,
            gangs: 1,
            each: 1_000,
            rounds: if quick { 20 } else { 200 },
            shape: |_, _| asks(MILLI),
        };
        let few = if quick { 1 } else { 5 };
        match self {
            Block::One => vec![
                Scene { what: "1,000 pods", ..plain },
                Scene { what: "1,000 pods, nodes filled unevenly", before: Before::Uneven, ..plain },
                Scene { what: "1,000 pods of two shapes", shape: leader_and_workers, ..plain },
                Scene { what: "1,000 pods, spread over zones", shape: |_, _| spread(), ..plain },
            ],
            Block::Many => [(1_000, 3), (2_000, 3), (3_000, 3), (3, 1_000), (6, 1_000), (9, 1_000)]
                .map(|(gangs, each)| Scene { what: "all alike", gangs, each, rounds: few, ..plain })
                .into(),
            Block::New => vec![
                Scene { what: "each gang its own", shape: |gang, _| asks(MILLI + gang), ..plain },
                Scene {
                    what: "each gang its own",
                    gangs: 1_000,
                    each: 3,
                    rounds: few,
                    shape: |gang, _| asks(MILLI + gang),
                    ..plain
                },
                Scene {
                    what: "each gang its own, uneven nodes",
                    before: Before::Uneven,
                    shape: |gang, _| asks(MILLI + gang),
                    ..plain
                },
                Scene {
                    what: "each pod its own",
                    each: 100,
                    rounds: plain.rounds / 10,
                    shape: |gang, member| asks(MILLI + 100 * gang + member),
                    ..plain
                },
            ],
            Block::Room => room(Scene { rounds: plain.rounds / 10, ..plain }),
            Block::None => vec![
                Scene { what: "all nodes together are too small", shape: |_, _| asks(400_000), ..plain },
                Scene { what: "no node is large enough", shape: |gang, _| asks(64_001 + gang), ..plain },
            ],
            Block::Nodes => [100, 300, 1_000, 3_000, 10_000]
                .map(|nodes| Scene {
                    what: "gangs of 100",
                    nodes,
                    gangs: 10,
                    each: 100,
                    rounds: 2 * few,
                    ..plain
                })
                .into_iter()
                .chain([100, 300, 1_000, 3_000, 10_000].map(|nodes| Scene {
                    what: "gangs of 100, each its own shape",
                    nodes,
                    gangs: 10,
                    each: 100,
                    rounds: 2 * few,
                    shape: |gang, _| asks(MILLI + gang),
                    ..plain
                }))
                .collect(),
            Block::Size => [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000]
                .map(|each| Scene {
                    what: "some 10,000 pods",
                    gangs: 10_000 / each,
                    each,
                    rounds: few,
                    ..plain
                })
                .into(),
            Block::Gangs => [100, 300, 1_000, 3_000, 10_000]
                .map(|gangs| Scene { what: "gangs of 10", gangs, each: 10, rounds: few, ..plain })
                .into(),
        }
    }
}

/// Every pod of the gangs needs a whole node.
fn room(plain: Scene) -> Vec<Scene> {
    let all =
        Scene { nodes: ROOM_NODES, before: Before::Full, each: 100, shape: |_, _| asks(NODE_MILLI), ..plain };
    vec![
        Scene { what: "1,000 pods alone", ..all },
        Scene { what: "1,000 pods alone", gangs: 10, each: 10, ..all },
        Scene { what: "100 groups of 10 that go whole", before: Before::FullOfGroups, ..all },
        Scene {
            what: "100 groups of 10 that go whole",
            before: Before::FullOfGroups,
            gangs: 10,
            each: 10,
            ..all
        },
    ]
}

/// The first of a gang is larger than the others.
fn leader_and_workers(_: usize, member: usize) -> Tree {
    asks(if member == 0 { 4 * MILLI } else { MILLI })
}

fn spread() -> Tree {
    asks(MILLI).merge(&tree!({"topologySpreadConstraints": [{"maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "gang"}}}]}))
}

fn asks(milli: usize) -> Tree {
    let requests = tree!({"cpu": format!("{milli}m"), "memory": "256Mi"});
    tree!({"containers": [{"name": "c", "resources": {"requests": requests}}]})
}

impl Scene {
    pub fn pods(&self) -> usize {
        self.gangs * self.each
    }

    pub fn node(n: usize) -> NodeFacts {
        let has = tree!({"cpu": format!("{NODE_MILLI}m"), "memory": "256Gi", "pods": "110"});
        let zone =
            tree!({"metadata": {"labels": {"topology.kubernetes.io/zone": format!("z{}", n % ZONES)}}});
        NodeFacts::of(&simulated_node(&node_name(n), &has).merge(&zone))
    }

    /// The group of a gang: all of its pods, or none; it may have others evicted.
    pub fn gang(&self) -> GroupSpec {
        GroupSpec::of(SchedulingPolicy::Gang { min: self.each })
    }

    /// A pod of a gang.
    pub fn member(&self, gang: usize, member: usize) -> Tree {
        let spec = (self.shape)(gang, member).with(&["schedulerName"], "s").with(&["priority"], 100);
        let labels = tree!({"app": "gang", "index": member.to_string()});
        tree!({"metadata": {"namespace": "default", "name": format!("{}-{member}", gang_name(gang)),
            "labels": labels}, "spec": spec})
    }

    /// What is on the nodes before, each with the group it is in.
    pub fn tenants(&self) -> Vec<(Tree, Option<Text>)> {
        let per_node = match self.before {
            Before::Empty => 0,
            Before::Uneven => 3,
            Before::Full | Before::FullOfGroups => VICTIMS_EACH,
        };
        let one = |n: usize| {
            let node = n / per_node;
            let milli = if self.before == Before::Uneven {
                100 + n * 7_919 % 9_973
            } else {
                NODE_MILLI / VICTIMS_EACH
            };
            let spec = asks(milli).with(&["schedulerName"], "s").with(&["nodeName"], node_name(node));
            let pod =
                tree!({"metadata": {"namespace": "default", "name": format!("tenant-{n}")}, "spec": spec});
            // Ten pods of a group are on ten nodes.
            let group = node / VICTIMS_EACH * VICTIMS_EACH + n % per_node;
            let grouped = self.before == Before::FullOfGroups;
            (pod, grouped.then(|| Text::from(format!("tenants-{group}"))))
        };
        (0..self.nodes * per_node).map(one).collect()
    }

    /// The group of tenants that go as a whole.
    pub fn tenant_group(&self) -> GroupSpec {
        GroupSpec {
            disruption: DisruptionMode::All,
            ..GroupSpec::of(SchedulingPolicy::Gang { min: VICTIMS_EACH })
        }
    }
}

pub fn gang_name(gang: usize) -> Text {
    Text::from(format!("gang-{gang:06}"))
}

fn node_name(n: usize) -> Text {
    Text::from(format!("node-{n:05}"))
}
