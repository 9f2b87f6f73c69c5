//! Fixtures for unit tests.

use std::path::PathBuf;

use crate::logs::LogRotation;
use crate::run_files::SupervisorConfig;
use crate::{ContainerConfig, Isolation, ResourceLimits, RunAs, RunId};

/// A supervisor config that runs `true`, modified by `change`.
pub fn orders(change: impl FnOnce(&mut ContainerConfig)) -> SupervisorConfig {
    let mut launch = ContainerConfig {
        id: RunId { pod: "pod".into(), container: "main".into(), attempt: 0 },
        pod_name: "default/pod".into(),
        image: "image".into(),
        argv: vec!["true".into()],
        image_program: false,
        pull: crate::container_config::ImagePullPolicy::default(),
        env: Vec::new(),
        dir: None,
        mounts: Vec::new(),
        hosts: PathBuf::from("/etc/hosts"),
        hostname: "pod".into(),
        stdin: false,
        stdin_once: false,
        tty: false,
        user: RunAs::default(),
        limits: ResourceLimits { processes: 64, ..ResourceLimits::default() },
        read_only_root: false,
        message_path: PathBuf::from("/dev/termination-log"),
        message_from_log: false,
        isolation: Isolation::Namespaces,
    };
    change(&mut launch);
    SupervisorConfig {
        launch,
        path: "/usr/bin:/bin".into(),
        home: "/home/server".into(),
        cgroup: None,
        log: LogRotation::DEFAULT,
        passing: None,
        engine: None,
    }
}
