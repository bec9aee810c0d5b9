//! Compiles the schema without protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(
        ["controller", "node", "step"].map(|name| format!("proto/gpunion/v1/{name}.proto")),
        ["proto"],
    )?;
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
