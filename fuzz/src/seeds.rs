//! Writes the first inputs of each target into `seeds/`: `cargo xtask fuzz seeds`. They are kept in the repository; this program is
//! needed again after a change of the model format.

use std::fs;
use std::path::Path;

use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use nuq_fuzz::small_models;
use nuq_io::{NpzArray, ParquetColumn, ParquetWriter, write_npz};

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let write = |target: &str, name: &str, bytes: &[u8]| {
        let folder = folder.join(target);
        fs::create_dir_all(&folder).expect("the folder of seeds is writable");
        fs::write(folder.join(name), bytes).expect("the folder of seeds is writable");
    };
    for (name, bytes) in small_models::model_files() {
        write("model", &name, &bytes);
    }
    for (name, params) in small_models::sharded_params() {
        let sharded = std::env::temp_dir().join(format!("nuq-seeds-{}", std::process::id()));
        small_models::write_sharded(&sharded, params);
        write("manifest", name, &fs::read(sharded.join("manifest.nuq")).expect("the manifest was written"));
        fs::remove_dir_all(&sharded).expect("a folder of this process can be removed");
    }
    write("npz", "rows-and-labels", &npz());
    write("parquet", "two-columns", &parquet());
    write("npy", "f4", &npy("<f4", "(2, 2)", &[0; 16]));
    write("npy", "f8", &npy(">f8", "(2,)", &[1; 16]));
    write("npy", "text", &npy("<U1", "(2,)", b"a\0\0\0b\0\0\0"));
    write("safetensors", "f32", &safetensors());
    write("table", "named", b"\0x,y,class\n1,2,cat\n3,4.5e-1,\"d,g\"\n");
    write("table", "tabs", b"\x01x\ty\r\n1\t2\r\n3\t-4\r\n");
    write("rules", "threshold", &small_models::small_rules());
    write("options", "kernel", b"gaussian");
    write("options", "names", b"train.npz:-a, \"b,c\"");
    write("http", "json", b"\0\0[[1,2],[3,4]]");
    write("http", "csv", b"\0\x001,2\n3,4\n");
    write("http", "npy", &[&[0, 0], &npy("<f4", "(1, 2)", &[0; 8])[..]].concat());
    write("http", "arrow", &[&[0, 0], &arrow()[..]].concat());
    let infer = br#"{"inputs":[{"name":"embeddings","shape":[1,2],"datatype":"FP32","data":[1,2]}]}"#;
    write("http", "infer", &[&[1, 0], &infer[..]].concat());
    let outputs = br#"{"id":"7","parameters":{"neighbors":2,"binary_data_output":true},"inputs":[{"name":"embeddings","shape":[2,2],"datatype":"FP64","data":[[1,2],[3,4]]},{"name":"logits","shape":[2,2],"datatype":"FP32","data":[1,2,3,4]}],"outputs":[{"name":"label"},{"name":"total","parameters":{"binary_data":false}}]}"#;
    write("http", "infer-outputs", &[&[1, 0], &outputs[..]].concat());
    write("http", "logits", br#"``{"rows":[[1,2]],"logits":[[0.5,-1]]}"#);
    let tensor = br#"{"inputs":[{"name":"embeddings","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}]}"#;
    for (name, bytes) in changes() {
        write("changes", name, bytes);
    }
    write("http", "binary-tensor", &[&[2, 0], &tensor[..], &[0; 8]].concat());
}

/// Requests that change a model. The first byte of each input selects the route.
fn changes() -> [(&'static str, &'static [u8]); 17] {
    [
        ("insert", br#"_{"rows":[[1,2]],"labels":["cat"]}"#),
        ("insert-class", br#"_{"rows":[[1,2]],"labels":["fox"],"new_classes":["fox"]}"#),
        ("insert-not-finite", br#"_{"rows":[[1,2],[3,NaN]],"labels":["cat","dog"]}"#),
        ("insert-other-labels", br#"_{"rows":[[1,2],[3,4]],"labels":[7,true]}"#),
        ("relabel", br#"`{"ids":[3],"labels":["dog"]}"#),
        ("relabel-class", br#"`{"ids":[3,4],"labels":["fox","fox"],"new_classes":["fox"]}"#),
        ("remove", br#"a{"ids":[0,11]}"#),
        ("remove-class", br#"a{"ids":[0,1,2,3,4,5]}"#),
        (
            "threshold",
            br#"b{"name":"t","measure":"total","coverage":0.5,"rows":[[1,2],[3,4]],"labels":["cat","dog"]}"#,
        ),
        ("threshold-density", br#"b{"measure":"density","coverage":0.9,"rows":[[0,0],[0.1,1],[0.2,2],[9,9]]}"#),
        ("threshold-epistemic", br#"b{"measure":"epistemic","false_alarm":0.25,"rows":[[0,0],[0.1,1],[0.2,2],[1e30,9]]}"#),
        ("threshold-risk", br#"b{"risk":0.9,"delta":0.9,"rows":[[0,0],[2,2],[4,4],[5,1]],"labels":["cat","dog","dog","dog"],"logits":[[2,1],[0,1],[0,1],[0,1]]}"#),
        ("threshold-risk-all", br#"b{"risk":0.4,"rows":[[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],[0,0],[5,1],[5,1],[5,1],[5,1],[5,1],[5,1]],"labels":["cat","cat","cat","cat","cat","cat","cat","cat","dog","dog","dog","dog","dog","dog"]}"#),
        ("threshold-risk-some", br#"b{"risk":0.4,"delta":0.2,"measure":"density","rows":[[0,0],[0,1],[0,2],[0,1],[0,0],[5,1],[5,2],[5,3],[90,1],[91,1],[92,1]],"labels":["cat","cat","cat","cat","cat","dog","dog","dog","cat","cat","cat"]}"#),
        ("threshold-false-alarm", br#"b{"false_alarm":0.5,"measure":"aleatoric","rows":[[0,0],[2,2],[4,4],[5,1]]}"#),
        ("suggest", br#"c{"rows":[[1,2],[3,4]]}"#),
        ("suggest-count", br#"c{"rows":[[1,2],[1,2],[3,4],[1e6,4]],"count":3}"#),
    ]
}

fn npy(element: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}, }}");
    let header = format!("{header:<117}\n");
    [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), values].concat()
}

/// An Arrow stream with one row of two columns.
fn arrow() -> Vec<u8> {
    let column = |value: f32| Arc::new(Float32Array::from(vec![value])) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("x", column(1.0)), ("y", column(2.0))]);
    let batch = batch.expect("the columns have equal lengths");
    let mut writer = StreamWriter::try_new(vec![], &batch.schema()).expect("writing to memory cannot fail");
    writer.write(&batch).expect("writing to memory cannot fail");
    writer.into_inner().expect("writing to memory cannot fail")
}

fn safetensors() -> Vec<u8> {
    let header = r#"{"embeddings":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#;
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 16]].concat()
}

fn npz() -> Vec<u8> {
    let mut bytes = vec![];
    let labels = ["cat".to_owned(), "dog".to_owned()];
    let arrays = [
        NpzArray::singles("embeddings", &[1.0, 2.0, 3.0, 4.0], Some(2)),
        NpzArray::strings("labels", &labels, None),
    ];
    write_npz(&mut bytes, &arrays).expect("writing to memory cannot fail");
    bytes
}

fn parquet() -> Vec<u8> {
    let mut bytes = vec![];
    let mut writer = ParquetWriter::default();
    let columns = vec![
        ("x", ParquetColumn::Numbers(vec![Some(1.0), Some(2.0)])),
        ("class", ParquetColumn::Strings(vec![Some("cat".to_owned()), None])),
    ];
    writer.append(columns, &mut bytes).expect("writing to memory cannot fail");
    writer.finish(&mut bytes).expect("writing to memory cannot fail");
    bytes
}
