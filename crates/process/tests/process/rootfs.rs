//! The rootfs of a container.

use std::fs;
use std::path::{Path, PathBuf};

use muster_process::{Isolation, Mount, RunAs};

use crate::world::World;

fn volume(world: &World, name: &str, text: &str) -> PathBuf {
    let dir = world.dir.path().join("volumes").join(name);
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("file"), text).unwrap();
    dir
}

fn mount(source: &Path, target: &str, read_only: bool) -> Mount {
    Mount { source: source.to_owned(), target: PathBuf::from(target), read_only }
}

#[test]
fn volumes_at_mount_paths_that_the_host_lacks() {
    let world = World::new(Isolation::Namespaces);
    let (a, b, c) = (volume(&world, "a", "in a"), volume(&world, "b", "in b"), volume(&world, "c", "in c"));
    let script = "cat /no/such/place/file /var/run/secrets/kubernetes.io/serviceaccount/file /etc/deep/er/one; \
                  cat /no/such/place/inner/file; \
                  echo new > /no/such/place/new && ! touch /var/run/secrets/kubernetes.io/serviceaccount/x 2>/dev/null && \
                  ls /etc/passwd /usr/bin/env && test -e /dev/null && echo fine";
    let mut launch = world.sh("places", script);
    launch.mounts = vec![
        mount(&a, "/no/such/place", false),
        mount(&b, "/var/run/secrets/kubernetes.io/serviceaccount", true),
        mount(&c.join("file"), "/etc/deep/er/one", true),
        mount(&c, "/no/such/place/inner", false),
    ];
    let (ended, log) = world.run(&launch);
    assert_eq!(ended.code, 0, "{log} {ended:?}");
    assert!(log.starts_with("in ain bin cin c") && log.ends_with("fine\n"), "{log}");
    assert_eq!(fs::read_to_string(a.join("new")).unwrap(), "new\n");
    for path in ["/no", "/var/run/secrets/kubernetes.io", "/etc/deep"] {
        assert!(!Path::new(path).exists(), "{path}: the machine was touched");
    }
}

#[test]
fn hostname_and_processes_are_isolated() {
    let world = World::new(Isolation::Namespaces);
    let (ended, log) =
        world.run(&world.sh("own", "cat /etc/hosts; uname -n; ls -d /proc/[0-9]* | wc -l; ls /dev/shm /tmp"));
    assert_eq!(ended.code, 0, "{log}");
    assert!(log.contains("127.9.9.9 my-pod\n"), "{log}");
    let rest: Vec<&str> = log.lines().skip_while(|line| !line.contains("127.9.9.9")).skip(1).collect();
    assert_eq!(rest[0], "my-pod");
    assert!(rest[1].parse::<u32>().unwrap() < 10, "{log}");
    assert_eq!(rest[2..].join("\n").trim(), "/dev/shm:\n\n/tmp:", "empty, both");
}

#[test]
fn writes_are_restricted_to_its_directories() {
    let world = World::new(Isolation::Namespaces);
    let outside = world.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let script = format!(
        "echo a > /tmp/a && echo b > /dev/shm/b && echo c > /dev/null && \
         ! echo d > {0}/d 2>/dev/null && ! mkdir {0}/e 2>/dev/null && echo held",
        outside.display()
    );
    let mut launch = world.sh("writes", &script);
    launch.env.push(("HOME".into(), "/nowhere".into()));
    let (ended, log) = world.run(&launch);
    assert!(ended.code == 0 && log.contains("held"), "{log}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert!(!Path::new("/tmp/a").exists());
}

#[test]
fn modes_and_times_of_host_files_cannot_be_changed() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let world = World::new(Isolation::Namespaces);
    let outside = world.dir.path().join("outside");
    fs::write(&outside, "").unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o600)).unwrap();
    let data = volume(&world, "data", "");
    // It may change its own files.
    let script = format!(
        "! chmod 4777 {0} 2>/dev/null && ! touch -d 2001-01-01 {0} 2>/dev/null && ! chmod 600 /dev/null 2>/dev/null && \
         ! chmod 777 /sys /etc /run 2>/dev/null && chmod 600 /data/file && touch -d 2001-01-01 /data/file && \
         echo x > /tmp/x && chmod 600 /tmp/x && chmod 600 /dev/termination-log && echo held",
        outside.display()
    );
    let mut launch = world.sh("modes", &script);
    launch.mounts = vec![mount(&data, "/data", false)];
    // Setting `HOME` does not make a directory writable.
    launch.env.push(("HOME".into(), world.dir.path().display().to_string()));
    let before = fs::metadata(&outside).unwrap();
    let (ended, log) = world.run(&launch);
    let after = fs::metadata(&outside).unwrap();
    assert_eq!((after.mode(), after.mtime()), (before.mode(), before.mtime()), "{log}");
    assert!(ended.code == 0 && log.contains("held"), "{log} {ended:?}");
    assert_eq!(fs::metadata(data.join("file")).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn devices_and_services_of_the_host_are_hidden() {
    let world = World::new(Isolation::Namespaces);
    let script = "echo $(ls /dev); ls /dev/pts; echo x > /dev/null; head -c 1 /dev/urandom > /dev/zero; \
                  for it in sys irq bus fs; do test ! -e /proc/$it || ! chmod 700 /proc/$it 2>/dev/null || echo open $it; done; \
                  find /run -type s";
    let (ended, log) = world.run(&world.sh("devices", script));
    assert_eq!(ended.code, 0, "{log}");
    let mut lines = log.lines();
    let allowed = "fd full null ptmx pts random shm stderr stdin stdout termination-log tty urandom zero";
    let others: Vec<&str> = lines
        .next()
        .unwrap()
        .split(' ')
        .filter(|it| !allowed.split(' ').any(|allowed| allowed == *it))
        .filter(|it| !it.starts_with("nvidia") && !["dri", "kfd", "infiniband"].contains(it))
        .collect();
    assert_eq!(others, Vec::<&str>::new());
    assert_eq!(lines.collect::<Vec<_>>(), ["ptmx"], "no terminals of others, no open switches, no sockets");
}

#[test]
fn a_read_only_root() {
    let world = World::new(Isolation::Namespaces);
    let data = volume(&world, "data", "");
    let script = "! touch /tmp/x 2>/dev/null && ! touch /x 2>/dev/null && ! touch /etc/x 2>/dev/null && \
                  echo y > /data/y && echo z > /dev/null && echo -n w > /dev/termination-log && echo held";
    let mut launch = world.sh("ro", script);
    launch.read_only_root = true;
    launch.mounts = vec![mount(&data, "/data", false)];
    launch.env.push(("HOME".into(), "/tmp".into()));
    let (ended, log) = world.run(&launch);
    assert!(ended.code == 0 && log.contains("held"), "{log} {ended:?}");
    assert_eq!(ended.message, "w");
}

#[test]
fn another_user() {
    let world = World::new(Isolation::Namespaces);
    let mut launch = world
        .sh("user", "id -u; id -g; echo x > /tmp/x; echo y > /dev/stderr; echo -n z > /dev/termination-log");
    launch.user = RunAs { uid: Some(4711), gid: Some(4712), groups: Vec::new() };
    let (ended, log) = world.run(&launch);
    assert_eq!((ended.code, ended.message.as_str()), (0, "z"), "{log}");
    assert!(log.starts_with("4711\n4712\n"), "{log}");
}

#[test]
fn a_missing_working_directory_is_created() {
    let world = World::new(Isolation::Namespaces);
    let mut launch = world.sh("wd", "pwd");
    launch.dir = Some(PathBuf::from("/work-dir/of/mine"));
    let (ended, log) = world.run(&launch);
    assert_eq!((ended.code, log.as_str()), (0, "/work-dir/of/mine\n"));
}

#[test]
fn a_missing_volume_is_reported() {
    let world = World::new(Isolation::Namespaces);
    let mut launch = world.sh("novolume", "true");
    launch.mounts = vec![mount(Path::new("/no/such/source"), "/data", false)];
    let (ended, _) = world.run(&launch);
    assert!(ended.message.contains("/no/such/source") && ended.message.contains("/data"), "{ended:?}");
}

#[test]
fn without_namespaces_volumes_are_below_a_root() {
    let world = World::new(Isolation::None);
    let (a, b) = (volume(&world, "a", "in a"), volume(&world, "b", "in b"));
    let mut launch = world.sh(
        "links",
        "cat $MUSTER_POD_ROOT/data/file $MUSTER_POD_ROOT/model/x/file; cat $MUSTER_POD_ROOT/etc/hosts; pwd",
    );
    launch.mounts = vec![mount(&a, "/data", false), mount(&b, "/model/x", true)];
    let (ended, log) = world.run(&launch);
    assert_eq!(ended.code, 0, "{log}");
    assert!(log.starts_with("in ain b") && log.contains("127.9.9.9 my-pod"), "{log}");
    assert!(log.trim_end().ends_with("/root"), "it starts in the pod's folder: {log}");
}
