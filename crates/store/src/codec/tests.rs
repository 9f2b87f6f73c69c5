use std::sync::Arc;

use muster_schema::object::Managed;
use muster_tree::{Text, Tree, tree};
use proptest::prelude::*;

use super::*;
use crate::Record;
use crate::share::Interner;

fn any_tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::Bool),
        any::<i64>().prop_map(Tree::Int),
        any::<f64>().prop_map(Tree::Float),
        ".{0,9}".prop_map(Tree::from),
        "x{250,300}".prop_map(Tree::from),
    ];
    leaf.prop_recursive(4, 40, 6, |below| {
        prop_oneof![
            prop::collection::vec(below.clone(), 0..6).prop_map(Tree::list),
            prop::collection::vec(("[a-f]{1,2}", below), 0..6).prop_map(Tree::map),
        ]
    })
}

fn any_object() -> impl Strategy<Value = StoredObject> {
    let managed =
        ("[ab]", any::<bool>(), "[cd]", any_tree()).prop_map(|(manager, applied, time, fields)| Managed {
            manager: Text::from(manager),
            applied,
            api_version: Text::from("v1"),
            subresource: Text::new(),
            time: Text::from(time),
            fields,
        });
    (any_tree(), prop::collection::vec(managed, 0..3), 1..1000_u64)
        .prop_map(|(tree, managed, revision)| StoredObject { tree, managed: Arc::from(managed), revision })
}

fn key(name: &str) -> Key {
    Key { resource: Text::from("pods"), namespace: Text::from("n"), name: Text::from(name) }
}

proptest! {
    #[test]
    fn encoding_round_trips(objects in prop::collection::vec(any_object(), 0..6), at in any::<i64>()) {
        let mut shelter = Interner::default();
        let mut encoder = Encoder::new(Time(at));
        for object in objects.iter().chain(&objects) {
            encoder.put(&key("a"), object);
        }
        let segment = decode(&encoder.finish(), &mut shelter).unwrap();
        prop_assert_eq!(segment.at, Time(at));
        let read: Vec<StoredObject> = segment.records.into_iter().map(|r| match r.what {
            What::Put(object) => object,
            What::Delete(_) => unreachable!("nothing was deleted"),
        }).collect();
        prop_assert_eq!(&read[..objects.len()], &objects[..]);
        prop_assert_eq!(&read[objects.len()..], &objects[..]);
    }

    #[test]
    fn corruption_is_reported(object in any_object(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let mut encoder = Encoder::new(Time(0));
        encoder.put(&key("a"), &object);
        let mut bytes = encoder.finish();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(decode(&bytes, &mut Interner::default()).is_err());
        prop_assert!(decode(&bytes[..at], &mut Interner::default()).is_err());
    }
}

#[test]
fn a_delete_keeps_its_last_state_only_where_it_differs() {
    let before = StoredObject { revision: 3, ..StoredObject::new(tree!({"a": 1})) };
    let same = StoredObject { revision: 4, ..before.clone() };
    let other = StoredObject { revision: 4, ..StoredObject::new(tree!({"a": 2})) };
    for (last, want) in [(same, None), (other.clone(), Some(other))] {
        let record = Record {
            revision: 4,
            key: key("a"),
            before: Some(before.clone()),
            after: None,
            last: Some(last),
        };
        let mut encoder = Encoder::new(Time(0));
        encoder.record(&record);
        let read = decode(&encoder.finish(), &mut Interner::default()).unwrap().records;
        assert_eq!(read, [Logged { revision: 4, key: key("a"), what: What::Delete(want) }]);
    }
}

#[test]
fn branches_read_back_are_shared() {
    let mut shelter = Interner::default();
    let mut read = |name: &str| {
        let mut encoder = Encoder::new(Time(0));
        encoder.put(&key(name), &StoredObject::new(tree!({"name": name, "spec": {"x": [1, 2]}})));
        match decode(&encoder.finish(), &mut shelter).unwrap().records.remove(0).what {
            What::Put(object) => object,
            What::Delete(_) => unreachable!("nothing was deleted"),
        }
    };
    let (a, b) = (read("a"), read("b"));
    assert!(a.tree.get("spec").unwrap().same_branch(b.tree.get("spec").unwrap()));
    assert!(Arc::ptr_eq(&a.managed, &b.managed));
}
