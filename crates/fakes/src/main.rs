//! `wardroom-fakes NAME --listen ADDRESS`: one fake as a program. The first line it prints is where it listens.

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        #[cfg(feature = "harbor")]
        Some("harbor") => wardroom_fakes::harbor::program::run(&arguments).await,
        #[cfg(feature = "spire")]
        Some("spire") => wardroom_fakes::spire::program::run(&arguments).await,
        _ => anyhow::bail!("name a fake first; each one has --help"),
    }
}
