//! An operator whose API server restarts, rejects requests, closes connections or is down: it recovers, with backoff
//! meanwhile.

use std::time::Duration;

use muster_tests::clients::{note, skip};
use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::jobset_cluster::{
    JOBS, JOBS_EACH, JOBSETS, create_jobsets, items, jobset_cluster, jobset_label, lease_holder, post,
    small_jobset, wait_for,
};
use muster_tests::muster_process::MusterProcess;
use muster_tests::proxy::{Proxy, ProxyMode, RecordedRequest, RequestFilter, busiest_second};
use muster_tests::real::{self, RealCluster};
use muster_tree::tree;

/// JobSets that want work in every outage.
const WANTING: usize = 50;
/// Requests that one JobSet may cost per second of an outage. One that is tried again and again without a pause costs
/// hundreds.
const REQUESTS_PER_SET_AND_SECOND_MAX: f64 = 4.0;
/// Requests per second that may go out whatever there is to do: watches, the Lease and those that find out whether the
/// server is back.
const REQUESTS_PER_SECOND_MAX: f64 = 40.0;

/// A control plane whose operator connects to it through a proxy.
struct Stage {
    operator: MusterProcess,
    proxy: Proxy,
    real: RealCluster,
    _folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let real = jobset_cluster(&["gc", "namespace"]).unwrap();
        let address = real.server.base().trim_start_matches("https://").parse().unwrap();
        let proxy = Proxy::start(address).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = real.kubeconfig(folder.path(), &proxy.base()).unwrap();
        let complaints = match std::env::var_os("MUSTER_TEST_OPERATOR_LOG") {
            Some(path) => std::fs::File::create(path).unwrap().into(),
            None => std::process::Stdio::null(),
        };
        let mut operator = MusterProcess::start_with_stderr(
            &["operator", "--controllers", "jobset"],
            &kubeconfig,
            complaints,
        );
        operator.wait_for_line("muster is the leader at https://");
        Stage { operator, proxy, real, _folder: folder }
    }

    fn server(&self) -> &ApiClient {
        &self.real.server
    }

    /// JobSets that have all that they want.
    fn content(&self, about: &str) -> Vec<String> {
        let names = sets(about);
        create_jobsets(self.server(), &names);
        for set in &names {
            wait_for(&format!("the Jobs of {set}"), || has_its_jobs(self.server(), set));
        }
        names
    }

    /// Takes their Jobs away: they want others. No webhook is asked for that, since in bad weather none may answer.
    fn deprive(&self, names: &[String]) {
        let which = format!("jobset.sigs.k8s.io%2Fjobset-name%20in%20%28{}%29", names.join("%2C"));
        let path = format!("{JOBS}?labelSelector={which}&propagationPolicy=Background");
        let done = self.server().send("DELETE", &path, &RequestStep::default(), Vec::new()).unwrap();
        assert_eq!(done.code, 200, "{}", done.body.to_json());
    }

    /// Has work to do in this weather for so long; what was asked for meanwhile.
    fn endures(&self, about: &str, weather: ProxyMode, secs: u64) -> Vec<RecordedRequest> {
        let names = self.content(about);
        self.proxy.set_mode(weather);
        let mark = self.proxy.request_count();
        if weather == ProxyMode::ShortWatches {
            assert!(self.proxy.cut_watches() > 0, "nothing was watched");
        }
        self.deprive(&names);
        std::thread::sleep(Duration::from_secs(secs));
        let seen = self.proxy.requests_since(mark);
        self.proxy.set_mode(ProxyMode::PassThrough);
        self.comes_to_good(about, &names);
        seen
    }

    /// What was created comes to its Jobs, and so does what is created now.
    fn comes_to_good(&self, about: &str, names: &[String]) {
        let later = format!("after-{about}");
        // A replica that lost the leader lease answers no admission reviews until it holds it again.
        wait_for("JobSets are admitted", || {
            let made = post(self.server(), JOBSETS, &small_jobset(&later, &tree!({})))?;
            if matches!(made.code, 201 | 409) { Ok(()) } else { Err(made.body.to_json()) }
        });
        for set in names.iter().chain([&later]) {
            wait_for(&format!("the Jobs of {set}"), || has_its_jobs(self.server(), set));
        }
    }
}

fn sets(about: &str) -> Vec<String> {
    (0..WANTING).map(|n| format!("{about}-{n}")).collect()
}

fn has_its_jobs(server: &ApiClient, set: &str) -> Result<(), String> {
    let selector = format!("{JOBS}?labelSelector=jobset.sigs.k8s.io%2Fjobset-name%3D{set}");
    let jobs = items(server, &selector);
    let right = jobs.len() == JOBS_EACH && jobs.iter().all(|job| jobset_label(job, "restart-attempt") == "0");
    let status = server.get(&format!("{JOBSETS}/{set}")).unwrap().body;
    let told = status.items_at(&["status", "replicatedJobsStatus"]).len() == 1;
    if right && told { Ok(()) } else { Err(format!("{} Jobs", jobs.len())) }
}

/// Prints how much was asked for, and holds it to the bound. It took `secs`, or longer where the machine was busy.
fn patient(about: &str, seen: &[RecordedRequest], secs: u64, per_second_max: f64) {
    let span = seen.last().zip(seen.first()).map_or(0, |(last, first)| (last.at - first.at).as_secs() + 1);
    let secs = secs.max(span);
    let watches = seen.iter().filter(|it| it.watch).count();
    let lease = seen.iter().filter(|it| it.path.contains("/leases/")).count();
    let rate = seen.len() as f64 / secs as f64;
    note(&format!(
        "outage, {about}: {} requests in {secs} s ({rate:.1}/s, {} in the busiest second; {watches} watches, {lease} of the \
         lease), {WANTING} JobSets wanting work",
        seen.len(),
        busiest_second(seen)
    ));
    assert!(rate <= per_second_max, "{about}: {rate:.1} requests per second, more than {per_second_max}");
}

fn pressing() -> f64 {
    WANTING as f64 * REQUESTS_PER_SET_AND_SECOND_MAX
}

#[test]
fn an_operator_recovers_by_itself_and_is_patient() {
    let test = "an_operator_recovers_by_itself_and_is_patient";
    if let Some(reason) = real::missing() {
        return skip(test, &reason);
    }
    let mut stage = Stage::new();
    let busy = stage.endures("busy", ProxyMode::Rejecting(RequestFilter::All, 429, Some(1)), 8);
    patient("429 to everything", &busy, 8, REQUESTS_PER_SECOND_MAX);
    let refused = stage.endures("refused", ProxyMode::Rejecting(RequestFilter::Writes, 500, None), 8);
    patient("500 to all writes", &refused, 8, pressing());
    let brief = stage.endures("brief", ProxyMode::ShortWatches, 6);
    patient("watches that end at once", &brief, 6, pressing());
    watches_are_cut(&stage);
    away(&stage);
    restarted(&mut stage);

    assert!(!lease_holder(stage.server()).is_empty(), "it is in charge");
    // That it ends in good order shows that it never ended before.
    assert_eq!(stage.operator.terminate(), 0);
}

/// Watches break off while JobSets come.
fn watches_are_cut(stage: &Stage) {
    let (names, mark, mut cut) = (sets("cut"), stage.proxy.request_count(), 0);
    for some in names.chunks(WANTING / 5) {
        create_jobsets(stage.server(), some);
        cut += stage.proxy.cut_watches();
        std::thread::sleep(Duration::from_secs(1));
    }
    let seen = stage.proxy.requests_since(mark);
    assert!(cut > 0, "nothing was watched");
    stage.comes_to_good("cut", &names);
    patient(&format!("{cut} watches cut"), &seen, 5, pressing());
}

/// The server is away for longer than a lease lasts, with work left undone before.
fn away(stage: &Stage) {
    const SECS: u64 = 22;
    let names = stage.content("away");
    stage.proxy.set_mode(ProxyMode::Rejecting(RequestFilter::Writes, 500, None));
    stage.deprive(&names);
    std::thread::sleep(Duration::from_secs(1));
    let mark = stage.proxy.request_count();
    stage.proxy.set_mode(ProxyMode::Disconnected);
    std::thread::sleep(Duration::from_secs(SECS));
    let seen = stage.proxy.requests_since(mark);
    stage.proxy.set_mode(ProxyMode::PassThrough);
    patient("away", &seen, SECS, REQUESTS_PER_SECOND_MAX);
    stage.comes_to_good("away", &names);
}

/// The server is killed and started again; JobSets come before and after.
fn restarted(stage: &mut Stage) {
    let names = sets("restart");
    let mark = stage.proxy.request_count();
    create_jobsets(stage.server(), &names);
    stage.real.restart_server().unwrap();
    let seen = stage.proxy.requests_since(mark);
    stage.comes_to_good("restart", &names);
    patient("API server restarted", &seen, 1, pressing());
}
