//! Configuration: the default, its overrides, and errors that name the key.

use wardroom_server::{
    kinds::{
        gpu_node::settings::Settings as GpuNodes, node::settings::Settings as Nodes,
        satellite::settings::Settings as Satellites,
    },
    platform::config::{Config, DEFAULT, Sources, print, resolve},
};

fn nodes(config: &Config) -> &Nodes {
    Nodes::of(config)
}

fn satellites(config: &Config) -> &Satellites {
    Satellites::of(config)
}

fn with(file: &str) -> Result<Config, String> {
    resolve(&Sources { file: Some(file.to_owned()), ..Sources::default() }, wardroom_server::KINDS)
        .map_err(|error| error.to_string())
}

#[test]
fn the_default_is_complete_and_safe() {
    let config = resolve(&Sources::default(), wardroom_server::KINDS).unwrap();
    assert!(config.listen.ip().is_loopback());
    assert!(nodes(&config).require_install_token);
    assert_eq!(nodes(&config).networks.len(), 2);
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let mut sources =
        Sources { file: Some("[server]\nlisten = \"127.0.0.1:1\"\n".to_owned()), ..Sources::default() };
    assert_eq!(resolve(&sources, wardroom_server::KINDS).unwrap().listen.port(), 1);
    sources.environment.push(("WARDROOM_SERVER_LISTEN".to_owned(), "127.0.0.1:2".to_owned()));
    assert_eq!(resolve(&sources, wardroom_server::KINDS).unwrap().listen.port(), 2);
    sources.flags.push(("server.listen", "127.0.0.1:3".to_owned()));
    assert_eq!(resolve(&sources, wardroom_server::KINDS).unwrap().listen.port(), 3);
}

#[test]
fn an_environment_variable_takes_the_type_of_its_key() {
    let set = |name: &str, value: &str| {
        let environment = vec![(name.to_owned(), value.to_owned())];
        resolve(&Sources { environment, ..Sources::default() }, wardroom_server::KINDS)
    };
    assert!(!nodes(&set("WARDROOM_NODES_DISCOVER", "false").unwrap()).discovery.enabled);
    assert_eq!(
        nodes(&set("WARDROOM_BOOT_NETWORKS", "10.0.0.0/8, 192.168.0.0/16").unwrap()).networks.len(),
        2
    );
    let error = set("WARDROOM_LIMITS_READ", "many").unwrap_err().to_string();
    assert_eq!(error, "WARDROOM_LIMITS_READ: \"many\" must be a whole number");
    assert!(set("WARDROOM_TOKEN", "of the command line").is_ok(), "other variables are not ours");
}

/// As files of services leave them that are written for every case.
#[test]
fn an_empty_variable_is_none_where_empty_means_nothing() {
    let set = |name: &str| {
        let environment = vec![(name.to_owned(), String::new())];
        let file = "[limits]\nread = 7\n[harbor]\nurl = \"https://harbor.example\"\nusername = \"u\"\npassword = \"p\"";
        resolve(
            &Sources { environment, file: Some(file.to_owned()), ..Sources::default() },
            wardroom_server::KINDS,
        )
    };
    for name in
        ["LOG_LEVEL", "LOG_FORMAT", "SERVER_LISTEN", "SERVER_DATA_DIR", "LIMITS_READ", "NODES_DISCOVER"]
    {
        let config = set(&format!("WARDROOM_{name}")).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((config.log_level.as_str(), config.limits.read), ("info", 7), "{name}");
        assert_eq!(config.data_dir.to_str(), Some("./wardroom-data"), "{name}");
    }
    assert!(nodes(&set("WARDROOM_BOOT_LISTEN").unwrap()).listen.is_none());
    assert!(nodes(&set("WARDROOM_BOOT_NETWORKS").unwrap()).networks.is_empty());
    assert!(satellites(&set("WARDROOM_HARBOR_URL").unwrap()).harbor.is_none());
    assert!(with("[log]\nlevel = \"\"").unwrap_err().contains("log.level: \"\" must be off, error, warn"));
}

#[test]
fn mistakes_are_named() {
    for (file, expected) in [
        ("[server]\nlisten = \"nonsense\"", "server.listen"),
        ("[server]\nlisten = 5", "server.listen: is of type integer, must be of type string"),
        ("[server]\nlistn = \"127.0.0.1:1\"", "server.listn: no such key"),
        ("[sever]\n", "[sever]: no such section"),
        ("listen = 1", "listen: is a section"),
        ("[server", "the configuration file is not TOML"),
        ("[server]\nlisten = \"0.0.0.0:8440\"", "insecure_http"),
        ("[spiffe]\nlisten = \"[::]:8443\"", "spiffe.url: is missing; satellites cannot reach [::]:8443"),
        (
            "[spiffe]\nlisten = \"127.0.0.1:8443\"\nurl = \"http://wardroom.example\"",
            "spiffe.url: must begin with https://",
        ),
        ("[server]\ntls_key = \"key.pem\"", "server.tls_certificate: is missing"),
        ("[server]\ndatabase_url = \"mysql://x\"", "server.database_url: must start with postgres://"),
        ("[boot]\nnetworks = [\"everywhere\"]", "boot.networks"),
        ("[boot]\nlisten = \"0.0.0.0:8441\"", "boot.base_url: is missing"),
        ("[boot]\nbase_url = \"ftp://x\"", "boot.base_url: \"ftp://x\" must be a URL such as http://"),
        ("[boot]\nbase_url = \"http://h/?a=b#c\"", "boot.base_url: "),
        ("[boot]\nbase_url = \"http://h/ && shell\"", "boot.base_url: "),
        ("[nodes]\ndiscover_max = -1", "nodes.discover_max: must be at least 0"),
        ("[server]\ndata_dir = \"\"", "server.data_dir: must not be empty"),
        ("[nodes]\ninstall_patience_minutes = 0", "nodes.install_patience_minutes: must be at least 1"),
        ("[gpu_nodes]\ntask_lease_seconds = 1", "gpu_nodes.task_lease_seconds: must be from 5 to 3600"),
        ("[gpu_nodes]\ntoken_minutes = 1441", "gpu_nodes.token_minutes: must be from 1 to 1440"),
        ("[secrets]\nenv_prefix = \"\"", "secrets.env_prefix: must not be empty"),
        ("[log]\nformat = \"xml\"", "log.format"),
        ("[limits]\nread = -1", "limits.read: must be from 0 to 4294967295"),
        ("[log]\nlevel = \"loud\"", "log.level: \"loud\" must be off, error, warn"),
        ("[log]\nlevel = \"info,wardroom_server\"", "log.level"),
        ("[boot]\nlisten = \"127.0.0.1:8440\"", "boot.listen: 127.0.0.1:8440 is taken by server.listen"),
        (
            "[server]\nlisten = \"0.0.0.0:8441\"\ninsecure_http = true",
            "boot.listen: 127.0.0.1:8441 is taken by server.listen",
        ),
    ] {
        let error = with(file).unwrap_err();
        assert!(error.contains(expected), "{file}: {error}");
    }
}

/// All mistakes of a file are reported at once, to be mended together.
#[test]
fn all_mistakes_are_told_at_once_with_what_there_is() {
    let said = with("[server]\nlistn = 1\nlisten = 5\n[sever]\n").unwrap_err();
    for part in
        ["server.listn: no such key; [server] has ", "listen, ", "server.listen: is of", "[sever]: no such"]
    {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    let said = with("[server]\nlisten = \"here\"\n[log]\nlevel = \"loud\"\n[boot]\nnetworks = [\"all\"]")
        .unwrap_err();
    assert_eq!(said.lines().count(), 3, "{said}");
    let named =
        Sources { file: Some("[sever]\n".into()), file_name: Some("my.toml".into()), ..Sources::default() };
    assert!(resolve(&named, wardroom_server::KINDS).unwrap_err().to_string().starts_with("my.toml: [sever]"));
}

#[test]
fn filters_of_logs_are_taken() {
    for level in [
        "info",
        "WARN",
        "off",
        "info,wardroom_server=debug",
        "warn,a::b=trace",
        "info,[request{id=1,b}]=debug",
    ] {
        assert!(with(&format!("[log]\nlevel = \"{level}\"")).is_ok(), "{level}");
    }
}

#[test]
fn plain_http_beyond_loopback_must_be_asked_for_by_name() {
    let beyond = |how: &str| {
        with(&format!(
            "[server]\npublic_url = \"https://wardroom.example\"\nlisten = \"0.0.0.0:8440\"\n{how}"
        ))
    };
    assert!(beyond("insecure_http = true").is_ok());
    assert!(beyond("tls_certificate = \"c\"\ntls_key = \"k\"").is_ok());
}

#[test]
fn what_is_printed_gives_the_same_configuration() {
    let given =
        Sources { environment: vec![("WARDROOM_LIMITS_READ".into(), "7".into())], ..Sources::default() };
    assert_eq!(print(&Sources::default()).unwrap(), DEFAULT);
    let again = Sources { file: Some(print(&given).unwrap()), ..Sources::default() };
    let all = |sources: &Sources| {
        let config = resolve(sources, wardroom_server::KINDS).unwrap();
        format!("{config:?} {:?} {:?} {:?}", nodes(&config), satellites(&config), GpuNodes::of(&config))
    };
    assert_eq!(all(&again), all(&given));
}
