//! Graphs without a model.
use reprise::*;

fn cpu() -> ExecutorOptions {
    ExecutorOptions { n_threads: 1, device: Some("cpu".into()), ..Default::default() }
}

/// y = silu(w x) * x, as in examples/graph.c
#[test]
fn a_graph_computes() {
    let w = [1.0f32, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 1.0, 1.0, 1.0, 1.0];
    let mut g = Graph::new().unwrap();
    let x = g.input("x", Dtype::F32, [4, 1, 1, 1]);
    let weight = g.weight("w", &w, [4, 4, 1, 1]);
    let wx = g.mul_mat(weight, x);
    let s = g.silu(wx);
    let y = g.mul(s, x);
    g.set_name(y, "y");
    let mut exec = g.compile(&[y], &cpu()).unwrap();
    exec.write(x, &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    exec.run().unwrap();
    let silu = |v: f32| v / (1.0 + (-v).exp());
    let want = [silu(1.0), silu(4.0) * 2.0, silu(9.0) * 3.0, silu(10.0) * 4.0];
    for (got, want) in exec.read::<f32>(y).unwrap().iter().zip(want) {
        assert!((got - want).abs() < 1e-5, "{} {}", got, want);
    }
    assert!(exec.graph().dump(DumpFormat::Text).unwrap().contains("silu"));
    assert!(exec.graph().dump(DumpFormat::Json).unwrap().starts_with('{'));
    assert_eq!(exec.info().device, "cpu");
}

#[test]
fn states_keep_their_contents_and_weights_can_be_quantised() {
    let row: Vec<f32> = (0..64).map(|i| i as f32 / 64.0).collect();
    let blocks = quantize(Dtype::Q8_0, &row).unwrap();
    let mut g = Graph::new().unwrap();
    let x = g.input("x", Dtype::F32, [64, 1, 1, 1]);
    let state = g.state("s", Dtype::F32, [1, 1, 1, 1]);
    let w = g.weight_quantized("w", Dtype::Q8_0, &blocks, [64, 1, 1, 1]);
    let y = g.mul_mat(w, x);
    let sum = g.add(y, state);
    let stored = g.store(sum, state, None);
    let out = g.scale(stored, 1.0, 0.0);
    let mut exec = g.compile(&[out], &cpu()).unwrap();
    exec.write(x, &[1.0f32; 64]).unwrap();
    exec.run().unwrap();
    exec.run().unwrap();
    let got = exec.read::<f32>(out).unwrap()[0];
    assert!((got - 2.0 * row.iter().sum::<f32>()).abs() < 0.5, "{}", got);
    assert_eq!(exec.read::<f32>(state).unwrap(), [got]);
    exec.write(state, &[0.0f32]).unwrap();
    exec.run().unwrap();
    assert!((exec.read::<f32>(state).unwrap()[0] * 2.0 - got).abs() < 0.1);
}

#[test]
fn memory_of_the_caller_is_used_where_it_lies() {
    let (mut w, mut x, mut y) = (vec![1.0f32, 0.0, 0.0, 2.0], vec![3.0f32, 4.0], vec![0.0f32; 2]);
    let tensor = |name: &str, data: &mut Vec<f32>, ne, read_only| unsafe {
        External::new(name, data.as_mut_ptr().cast(), Dtype::F32, ne, None, None, read_only)
    };
    let w_there = tensor("w", &mut w, [2, 2, 1, 1], false).unwrap();
    let x_there = tensor("x", &mut x, [2, 1, 1, 1], true).unwrap();
    let y_there = tensor("y", &mut y, [2, 1, 1, 1], false).unwrap();
    let mut g = Graph::new().unwrap();
    let xn = g.input("x", Dtype::F32, [2, 1, 1, 1]);
    let wn = g.weight_external("w", &w_there);
    let yn = g.mul_mat(wn, xn);
    g.set_name(yn, "y");
    let mut exec = g.compile(&[yn], &cpu()).unwrap();
    exec.bind(xn, Some(&x_there)).unwrap();
    exec.bind(yn, Some(&y_there)).unwrap();
    exec.run().unwrap();
    assert_eq!(y, [3.0, 8.0]);
    w[0] = 10.0;
    exec.run().unwrap();
    assert_eq!(y, [30.0, 8.0]);
    let error = exec.bind(yn, Some(&x_there)).unwrap_err();
    assert!(error.text().contains("external tensor 'x' f32 [2] is for reading only"), "{}", error);
    exec.bind(yn, None).unwrap();
    x[0] = 1.0;
    exec.run().unwrap();
    assert_eq!(exec.read::<f32>(yn).unwrap(), [10.0, 8.0]);
    assert_eq!(y, [30.0, 8.0]);
    let error = tensor("q", &mut y, [0, 1, 1, 1], false).unwrap_err();
    assert!(error.text().contains("external tensor 'q' f32 [0]: dimensions must be positive"), "{}", error);
}

#[test]
fn a_weight_of_another_length_is_refused() {
    let mut g = Graph::new().unwrap();
    let x = g.input("x", Dtype::F32, [2, 1, 1, 1]);
    let w = g.weight("w", &[1.0; 3], [2, 2, 1, 1]);
    let y = g.mul_mat(w, x);
    assert!(g.compile(&[y], &cpu()).unwrap_err().text().contains("w has 12 bytes"));
}

#[test]
fn types_have_names_and_sizes() {
    assert_eq!(Dtype::all().count(), sys::RP_DTYPE_COUNT as usize);
    for dtype in Dtype::all() {
        assert_eq!(Dtype::from_name(&dtype.name()), Some(dtype));
    }
    assert_eq!(Dtype::from_name("q9_9"), None);
}
