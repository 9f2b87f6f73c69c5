//! Values for tests of this crate.

use std::path::PathBuf;

use crate::files::Orders;
use crate::logs::Bounds;
use crate::{Id, Identity, Isolation, Launch, Limits};

/// Orders for `true`, changed as a test wants.
pub fn orders(change: impl FnOnce(&mut Launch)) -> Orders {
    let mut launch = Launch {
        id: Id { pod: "pod".into(), container: "main".into(), attempt: 0 },
        pod_name: "default/pod".into(),
        image: "image".into(),
        argv: vec!["true".into()],
        image_program: false,
        pull: crate::launch::Pull::default(),
        env: Vec::new(),
        dir: None,
        mounts: Vec::new(),
        hosts: PathBuf::from("/etc/hosts"),
        hostname: "pod".into(),
        stdin: false,
        stdin_once: false,
        tty: false,
        user: Identity::default(),
        limits: Limits { processes: 64, ..Limits::default() },
        read_only_root: false,
        message_path: PathBuf::from("/dev/termination-log"),
        message_from_log: false,
        isolation: Isolation::Namespaces,
    };
    change(&mut launch);
    Orders {
        launch,
        path: "/usr/bin:/bin".into(),
        home: "/home/server".into(),
        cgroup: None,
        log: Bounds::DEFAULT,
        passing: None,
        engine: None,
    }
}
