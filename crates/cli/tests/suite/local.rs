//! Commands on a store and on a configuration, without or beside a server.

use crate::fixture::{Ran, Server, program};

#[test]
fn a_backup_is_taken_beside_the_server_and_restored() {
    let mut server = Server::start();
    let id = server.node("52:54:00:00:00:01", &[]);
    let data = server.data_dir();
    let data = data.to_str().unwrap();
    assert!(server.ok(&["audit", "verify", "--data-dir", data]).starts_with("history is good: "));
    let taken = server.run(&["backup", "all.backup", "--data-dir", data]);
    taken.says(0, &["server.key and ", "wardroom-data/secrets"]);
    server
        .run(&["backup", "all.backup", "--data-dir", data])
        .says(1, &["all.backup already exists", "next: "]);
    server.run(&["restore", "all.backup", "--data-dir", data]).says(1, &["in use"]);

    let restored = server.run(&["restore", "all.backup", "--data-dir", "other"]);
    restored.says(0, &["other/server.key", "other/secrets"]);
    server
        .run(&["restore", "all.backup", "--data-dir", "other"])
        .says(1, &["other is not empty", "next: ", "--data-dir"]);
    let verified = server.run(&["audit", "verify", "--data-dir", "other"]);
    verified.says(0, &["signatures were not checked", "other/server.key"]);

    // The tokens come along with the backup: the old one lets in. The key does not.
    server.kill();
    let other = server.dir.path().join("other");
    for file in ["admin.token", "server.key"] {
        std::fs::copy(server.data_dir().join(file), other.join(file)).unwrap();
    }
    std::fs::remove_dir_all(server.data_dir()).unwrap();
    std::fs::rename(other, server.data_dir()).unwrap();
    server.restart();
    assert!(server.ok(&["get", "node", &id]).contains("discovered"));
}

/// The holder of a server's key and database gets in again although no token is left.
#[test]
fn a_token_is_made_without_one() {
    let mut server = Server::start();
    let local = server.data_dir().join("admin.token");
    std::fs::remove_file(&local).unwrap();
    server.run(&["get", "nodes"]).says(5, &["token"]);
    let recover = |name| ["token", "recover", name, "--data-dir", "wardroom-data", "--secret-file", "way-in"];
    server.run(&recover("rescue")).says(1, &["in use"]);
    server.stop();
    let path = server.dir.path().join("way-in");
    assert!(!path.exists(), "a file without a token");
    server.run(&recover("first-admin")).says(1, &["was used before"]);
    server.run(&recover("rescue")).says(0, &["admin token created"]);
    let elsewhere = ["token", "recover", "rescue", "--data-dir", "nowhere"];
    server.run(&elsewhere).says(1, &["nowhere/wardroom.db", "next: give the location"]);
    assert!(!server.dir.path().join("nowhere").exists());
    std::fs::write(server.dir.path().join("other.key"), [7; 32]).unwrap();
    let other = ["token", "recover", "more", "--data-dir", "wardroom-data", "--key-file", "other.key"];
    server.run(&other).says(1, &["other.key", "is not the key"]);
    server.restart();
    assert!(!server.run(&["token", "list", "--token-file", "way-in"]).success().contains("more"));
    assert!(server.ok(&["audit", "verify", "--data-dir", "wardroom-data"]).starts_with("history is good"));
}

#[test]
fn a_damaged_backup_is_refused() {
    let server = Server::start();
    server.ok(&["backup", "all.backup", "--data-dir", "wardroom-data"]);
    let path = server.dir.path().join("all.backup");
    let text = std::fs::read_to_string(&path).unwrap().replace("first-admin", "other-admin");
    std::fs::write(&path, text).unwrap();
    server.run(&["restore", "all.backup", "--data-dir", "other"]).says(1, &["checksum"]);
}

#[test]
fn exported_checkpoints_are_compared() {
    let mut server = Server::start();
    server.node("52:54:00:00:00:01", &[]);
    // A server seals what is new when it stops in good order.
    server.stop();
    let exported = server.ok(&["audit", "export", "--data-dir", "wardroom-data"]);
    assert_eq!(exported.lines().count(), 1, "{exported}");
    let path = server.dir.path().join("checkpoints");
    let verify = ["audit", "verify", "--data-dir", "wardroom-data", "--checkpoint", "checkpoints"];
    std::fs::write(&path, &exported).unwrap();
    server.run(&verify).says(0, &[]);
    std::fs::write(&path, exported.replace("\"row_count\":", "\"row_count\":1")).unwrap();
    server.run(&verify).says(1, &["history was altered", "checkpoint 1"]);
    std::fs::write(&path, "nonsense\n").unwrap();
    server.run(&verify).says(1, &["line 1 is no checkpoint"]);
    assert!(
        server
            .data_dir()
            .read_dir()
            .unwrap()
            .all(|file| { !file.unwrap().file_name().to_string_lossy().starts_with(".export") })
    );
}

#[test]
fn another_key_did_not_sign() {
    let mut server = Server::start();
    server.stop();
    std::fs::write(server.dir.path().join("other.key"), [7; 32]).unwrap();
    let verify = ["audit", "verify", "--data-dir", "wardroom-data", "--key-file", "other.key"];
    server.run(&verify).says(1, &["checkpoint 1 is not signed by this key"]);
    let missing = ["audit", "verify", "--data-dir", "wardroom-data", "--key-file", "missing.key"];
    server.run(&missing).says(1, &["missing.key"]);
    server
        .run(&["audit", "verify", "--data-dir", "nowhere"])
        .says(1, &["nowhere/wardroom.db", "next: give the location"]);
}

#[test]
fn configurations_are_checked_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = program(dir.path());
        command.args(arguments);
        Ran::of(command)
    };
    let default = run(&["config", "default"]).success();
    std::fs::write(dir.path().join("wardroom.toml"), &default).unwrap();
    run(&["config", "check", "--config", "wardroom.toml"]).says(0, &[]);
    run(&["config", "check", "--listen", "0.0.0.0:8440"]).says(1, &["server.listen", "loopback"]);
    std::fs::write(dir.path().join("wrong.toml"), "[server]\nlisten = 1\n").unwrap();
    run(&["config", "check", "--config", "wrong.toml"]).says(1, &["wrong.toml: server.listen"]);
    let loud = [("WARDROOM_LOG_LEVEL", "loud")];
    let mut command = program(dir.path());
    command.args(["config", "check"]).envs(loud);
    Ran::of(command).says(1, &["log.level", "info"]);
    let one = ["--listen", "127.0.0.1:8440", "--boot-listen", "127.0.0.1:8440"];
    run(&[&["config", "check"], &one[..]].concat()).says(1, &["boot.listen", "is taken by server.listen"]);
    let unwritable = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--boot-listen",
        "",
        "--device-listen",
        "",
        "--data-dir",
        "wrong.toml/data",
    ];
    run(&unwritable).says(1, &["server.data_dir: wrong.toml/data cannot be written", "next: ", "--data-dir"]);
    let printed = run(&["config", "print", "--database-url", "postgres://me:secret@db/wardroom"]).success();
    assert!(printed.contains("postgres://me:***@db/wardroom") && !printed.contains(":secret"), "{printed}");
    std::fs::write(
        dir.path().join("tls.toml"),
        "[server]\ntls_certificate = \"no.pem\"\ntls_key = \"no.key\"\n",
    )
    .unwrap();
    run(&["config", "check", "--config", "tls.toml"]).says(1, &["no.pem"]);
    let spire = "[spire]\naddress = \"unix:///nobody.sock\"\nagent_address = \"127.0.0.1:1\"\n";
    std::fs::write(dir.path().join("spire.toml"), spire).unwrap();
    run(&["config", "check", "--config", "spire.toml"]).says(0, &[]);
    run(&["config", "check", "--data-dir", "wardroom.toml/data"])
        .says(1, &["server.data_dir", "wardroom.toml"]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4, "a check leaves nothing behind");
}

#[test]
fn shells_are_completed() {
    let dir = tempfile::tempdir().unwrap();
    // The first three ask the program for every word; the others know the words of the commands.
    for (shell, word) in
        [("bash", "__complete"), ("zsh", "__complete"), ("fish", "__complete"), ("elvish", "describe")]
    {
        let mut command = program(dir.path());
        command.args(["completion", shell]);
        assert!(Ran::of(command).success().contains(word), "{shell}");
    }
    let mut command = program(dir.path());
    command.arg("version");
    assert!(Ran::of(command).success().starts_with("wardroom "));
}
