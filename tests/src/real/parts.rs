//! The programs of a real plane, each with the flags that the tests need.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{Disk, Gangs, TOKEN, audit, program};

/// Signs the certificate that the API server shows to nodes.
pub(super) const NODE_AUTHORITY: &str = "node-authority.crt";
/// What the API server shows to those it hands groups on to: who signed it, the certificate and its key.
pub(super) const FRONT_PROXY: [&str; 3] = ["front-proxy-authority.crt", "front-proxy.crt", "front-proxy.key"];
/// Gangs, and all that their objects can say: ours keeps those fields, too.
const GATES: [&str; 4] = [
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "PodGroupPreemptionPolicy",
    "DRAWorkloadResourceClaims",
];
/// The names of our `--controllers`, and what does that work in a real plane.
const CONTROLLERS: [(&str, &str); 12] = [
    ("gc", "garbage-collector-controller"),
    ("namespace", "namespace-controller"),
    // Ours counts what a quota limits when it is asked.
    ("job", "job-controller,ttl-after-finished-controller,resourcequota-controller"),
    ("serviceaccount", "serviceaccount-controller"),
    ("podgc", "pod-garbage-collector-controller"),
    ("endpointslice", "endpointslice-controller"),
    (
        "volume",
        "persistentvolume-binder-controller,persistentvolumeclaim-protection-controller,\
         persistentvolume-protection-controller,ephemeral-volume-controller",
    ),
    ("resourceclaim", "resourceclaim-controller"),
    ("node", "node-lifecycle-controller,taint-eviction-controller"),
    ("podgroup", "podgroup-protection-controller"),
    // Ours has its roles whole from the start.
    ("role", "clusterrole-aggregation-controller"),
    // Ours has none: this is for the Deployments of upstream's controllers and of our operator on a cluster.
    ("deployment", "deployment-controller,replicaset-controller"),
];

/// The flags of a component of a plane with or without the kinds of gangs.
pub(super) fn gates(gangs: Gangs) -> Vec<String> {
    match gangs {
        Gangs::Native | Gangs::Whole => vec!["--feature-gates=GenericWorkload=true".to_owned()],
        Gangs::Absent => Vec::new(),
    }
}

/// The flags of its API server: gangs, and all that their objects can say.
fn served(gangs: Gangs) -> Vec<String> {
    match gangs {
        Gangs::Whole => {
            vec![format!("--feature-gates={}", GATES.map(|gate| format!("{gate}=true")).join(","))]
        }
        Gangs::Native | Gangs::Absent => gates(gangs),
    }
}

pub(super) fn etcd(folder: &Path, client: u16, peer: u16, disk: Disk) -> Result<Child, String> {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let mut command = Command::new(program("etcd")?);
    if disk == Disk::Unsynced {
        command.arg("--unsafe-no-fsync");
    }
    spawn(command.args([
        "--data-dir",
        &folder.join("etcd").display().to_string(),
        "--listen-client-urls",
        &client,
        "--advertise-client-urls",
        &client,
        "--listen-peer-urls",
        &peer,
        "--initial-advertise-peer-urls",
        &peer,
        "--initial-cluster",
        &format!("default={peer}"),
        "--log-level",
        "error",
    ]))
}

/// A client certificate with this common name, from an authority of its own; the paths of certificate and key.
fn client(
    folder: &Path,
    name: &str,
    files: [&str; 3],
) -> Result<(String, String), Box<dyn std::error::Error>> {
    let authority_key = rcgen::KeyPair::generate()?;
    let mut params = rcgen::CertificateParams::new(Vec::new())?;
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key)?.pem();
    write(folder, files[0], &authority)?;
    let issuer = rcgen::Issuer::from_ca_cert_pem(&authority, authority_key)?;
    let key = rcgen::KeyPair::generate()?;
    let mut params = rcgen::CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &issuer)?.pem();
    let path = write(folder, files[1], &certificate)?;
    Ok((path, write(folder, files[2], &key.serialize_pem())?))
}

/// The flags by which it hands groups on to others: what it shows them, and how it names whoever asked.
fn front_proxy(folder: &Path) -> Result<Vec<String>, String> {
    let (certificate, key) = client(folder, "front-proxy-client", FRONT_PROXY).map_err(|e| e.to_string())?;
    Ok(vec![
        format!("--proxy-client-cert-file={certificate}"),
        format!("--proxy-client-key-file={key}"),
        format!("--requestheader-client-ca-file={}", folder.join(FRONT_PROXY[0]).display()),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
    ])
}

/// The files with the keys of tokens, private and public. Made once: a server that is started again knows its tokens.
fn account_keys(folder: &Path) -> Result<(String, String), String> {
    let [key, public] = ["service-accounts.key", "service-accounts.pub"];
    if !folder.join(key).exists() {
        let made = rcgen::KeyPair::generate().map_err(|e| e.to_string())?;
        write(folder, public, &made.public_key_pem())?;
        write(folder, key, &made.serialize_pem())?;
    }
    let path = |name: &str| folder.join(name).display().to_string();
    Ok((path(key), path(public)))
}

pub(super) fn apiserver(folder: &Path, etcd: u16, secure: u16, gangs: Gangs) -> Result<Child, String> {
    let (key, public) = account_keys(folder)?;
    let tokens = write(folder, "tokens.csv", &format!("{TOKEN},admin,admin,\"system:masters\"\n"))?;
    let native = (gangs != Gangs::Absent).then_some("scheduling.k8s.io/v1beta1");
    let versions = native.into_iter().chain(["resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"]);
    let versions: Vec<String> = versions.map(|v| format!("{v}=true")).collect();
    let files = [NODE_AUTHORITY, "node-client.crt", "node-client.key"];
    let (node_certificate, node_key) = client(folder, "kube-apiserver", files).map_err(|e| e.to_string())?;
    spawn(
        Command::new(program("kube-apiserver")?)
            .arg(format!("--kubelet-client-certificate={node_certificate}"))
            .arg(format!("--kubelet-client-key={node_key}"))
            .arg("--kubelet-preferred-address-types=InternalIP")
            .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={secure}"))
            .arg(format!("--cert-dir={}", folder.join("certs").display()))
            .arg(format!("--service-account-key-file={public}"))
            .arg(format!("--service-account-signing-key-file={key}"))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg("--service-cluster-ip-range=10.96.0.0/16")
            // As every installer sets it; the bare default would refuse privileged containers.
            .arg("--allow-privileged=true")
            .arg(format!("--token-auth-file={tokens}"))
            .arg("--authorization-mode=RBAC")
            .args(served(gangs))
            .arg(format!("--runtime-config={}", versions.join(",")))
            // Ours leaves the token volume to the node, see the spec of admission.
            .arg("--disable-admission-plugins=ServiceAccount")
            // Where it is on, blocking the deletion of an owner takes a right.
            .arg("--enable-admission-plugins=OwnerReferencesPermissionEnforcement")
            .args(front_proxy(folder)?)
            .args(audit::flags(folder)?),
    )
}

/// What does the work of one of our controllers in a real plane.
pub(super) fn controller(name: &str) -> Result<&'static str, String> {
    let found = CONTROLLERS.iter().find(|(ours, _)| *ours == name);
    found.map(|(_, real)| *real).ok_or_else(|| format!("a real plane has no controller like our {name}"))
}

/// A component that is a client of the server.
pub(super) fn component(name: &str, kubeconfig: &str) -> Result<Command, String> {
    let mut command = Command::new(program(name)?);
    command
        .arg(format!("--kubeconfig={kubeconfig}"))
        .arg(format!("--authentication-kubeconfig={kubeconfig}"))
        .arg(format!("--authorization-kubeconfig={kubeconfig}"))
        .arg("--leader-elect=false")
        // Nobody asks it anything, and a port taken by another in between would end it unseen.
        .arg("--secure-port=0")
        // Its own limits would only make events late.
        .args(["--kube-api-qps=2000", "--kube-api-burst=2000"]);
    Ok(command)
}

/// A kubeconfig of the administrator.
pub(super) fn kubeconfig(base: &str) -> String {
    kubeconfig_of(base, TOKEN)
}

/// A kubeconfig of whoever has this token.
pub(super) fn kubeconfig_of(base: &str, token: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: real\n\
         clusters: [{{name: real, cluster: {{server: '{base}', insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: user, user: {{token: {token}}}}}]\n\
         contexts: [{{name: real, context: {{cluster: real, user: user}}}}]\n"
    )
}

pub(super) fn write(folder: &Path, name: &str, text: &str) -> Result<String, String> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path.display().to_string())
}

pub(super) fn spawn(command: &mut Command) -> Result<Child, String> {
    let program = command.get_program().to_owned();
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().map_err(|e| format!("{}: {e}", program.display()))
}
