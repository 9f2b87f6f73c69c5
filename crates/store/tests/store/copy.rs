//! Stores in one file: saved, restored elsewhere, damaged, and of versions to come.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use muster_store::copy::{CopyError, restore, save};
use muster_store::{OpenError, Range, StoreOptions};
use sha2::{Digest, Sha256};

use crate::durable::open;
use crate::support::*;

fn filled(directory: &Path) {
    let store = open(directory, StoreOptions::default());
    for n in 0..300 {
        set(&store, &key("pods", "n", &format!("p{}", n % 50)), n);
        set(&store, &key("jobs", "n", &format!("j{n}")), n);
    }
    remove(&store, &key("pods", "n", "p7"));
    store.meta_put("key", b"secret").unwrap();
}

#[test]
fn a_saved_store_can_be_restored() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to, file) = (folder.path().join("from"), folder.path().join("to"), folder.path().join("file"));
    filled(&from);
    let saved = save(&from, &file).unwrap();
    assert_eq!(restore(&file, &to).unwrap(), saved);
    let (old, new) = (open(&from, StoreOptions::default()), open(&to, StoreOptions::default()));
    assert_eq!((old.revision(), new.revision()), (saved.revision, saved.revision));
    for resource in ["pods", "jobs"] {
        let all = |store: &muster_store::Store| store.list(resource, &Range::default()).unwrap().objects;
        assert_eq!(all(&old), all(&new));
        assert!(!all(&new).is_empty());
    }
    assert_eq!(new.meta_get("key"), Some(b"secret".to_vec()), "keys are part of it");
    for file in [&file, &to.join("store.redb"), &from.join("store.redb")] {
        let mode = std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file:?} holds keys");
    }
    set(&new, &key("pods", "n", "later"), 1);
    assert_eq!(new.revision(), saved.revision + 1, "life goes on");
}

#[test]
fn a_store_in_use_is_not_saved() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    filled(&from);
    let store = open(&from, StoreOptions::default());
    let file = folder.path().join("file");
    let refused = save(&from, &file).unwrap_err();
    assert!(matches!(refused, CopyError::Open(OpenError::InUse { .. })), "{refused}");
    assert!(refused.to_string().contains(&format!("(pid {})", std::process::id())), "{refused}");
    assert!(!file.exists());
    drop(store);
    let nothing = save(&folder.path().join("nowhere"), &file).unwrap_err();
    assert!(matches!(nothing, CopyError::NoStore { .. }), "{nothing}");
    assert!(!folder.path().join("nowhere").exists(), "looking makes nothing");
}

#[test]
fn a_restore_never_overwrites() {
    let folder = tempfile::tempdir().unwrap();
    let (from, file) = (folder.path().join("from"), folder.path().join("file"));
    filled(&from);
    save(&from, &file).unwrap();
    let before = std::fs::read(from.join("store.redb")).unwrap();
    let refused = restore(&file, &from).unwrap_err();
    assert!(matches!(refused, CopyError::NotEmpty { .. }), "{refused}");
    assert_eq!(std::fs::read(from.join("store.redb")).unwrap(), before);
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    restore(&file, &empty).unwrap();
}

/// A file with its sum set right again: only what it says is wrong.
fn resealed(bytes: &[u8]) -> Vec<u8> {
    let body = &bytes[..bytes.len() - 32];
    [body, &Sha256::digest(body)[..]].concat()
}

#[test]
fn corrupt_and_newer_files_are_rejected_without_leftovers() {
    let folder = tempfile::tempdir().unwrap();
    let (from, file) = (folder.path().join("from"), folder.path().join("file"));
    filled(&from);
    save(&from, &file).unwrap();
    let good = std::fs::read(&file).unwrap();
    let replaced = |what: &str, with: &str| {
        let at = good.windows(what.len()).position(|window| window == what.as_bytes()).unwrap();
        [&good[..at], with.as_bytes(), &good[at + what.len()..]].concat()
    };
    let flipped = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    for (says, bytes, words) in [
        ("cut short", good[..good.len() - 1].to_vec(), "its sum does not match"),
        ("nearly nothing", good[..20].to_vec(), "cut short"),
        ("empty", Vec::new(), "is no snapshot of muster"),
        ("something else", b"PK\x03\x04 and so on".to_vec(), "is no snapshot of muster"),
        ("a flipped bit", flipped(good.len() / 2), "its sum does not match"),
        ("a flipped bit in the sum", flipped(good.len() - 1), "its sum does not match"),
        ("a flipped bit in the description", flipped(22), "its sum does not match"),
        (
            "a newer version",
            replaced("muster snapshot 1\n", "muster snapshot 2\n"),
            "is a snapshot of format 2, this version of muster reads format 1",
        ),
        (
            "a newer store",
            resealed(&replaced("\"storeFormat\":1", "\"storeFormat\":9")),
            "has format 9, this version of muster reads format 1",
        ),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let to = folder.path().join("to");
        let refused = restore(&file, &to).unwrap_err().to_string();
        assert!(refused.contains(words), "{says}: {refused}");
        assert!(!to.exists(), "{says}");
    }
}
