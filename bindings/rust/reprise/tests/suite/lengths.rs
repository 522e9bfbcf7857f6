//! Arrays of another length than a function wants. Made by bindings/generator; do not edit.
use reprise::nn;

fn refused<T>(result: reprise::Result<T>, text: &str) {
    assert_eq!(result.err().unwrap().text(), text);
}

#[test]
fn arrays_of_another_length_are_refused() {
    refused(nn::silu(&[0f32; 2], &mut [0f32; 3]), "silu: y has 3 elements, 2 are wanted");
    refused(nn::gelu(&[0f32; 2], &mut [0f32; 3], 2), "gelu: y has 3 elements, 2 are wanted");
    refused(nn::add(&[0f32; 2], &[0f32; 3], &mut [0f32; 2]), "add: b has 3 elements, 2 are wanted");
    refused(nn::add(&[0f32; 2], &[0f32; 2], &mut [0f32; 3]), "add: y has 3 elements, 2 are wanted");
    refused(nn::mul(&[0f32; 2], &[0f32; 3], &mut [0f32; 2]), "mul: b has 3 elements, 2 are wanted");
    refused(nn::mul(&[0f32; 2], &[0f32; 2], &mut [0f32; 3]), "mul: y has 3 elements, 2 are wanted");
    refused(nn::scale(&[0f32; 2], &mut [0f32; 3], 2.0), "scale: y has 3 elements, 2 are wanted");
    refused(nn::softmax(&[0f32; 5], &mut [0f32; 4], 2, 2), "softmax: x has 5 elements, 4 are wanted");
    refused(nn::softmax(&[0f32; 4], &mut [0f32; 5], 2, 2), "softmax: y has 5 elements, 4 are wanted");
    refused(nn::rmsnorm(&[0f32; 5], Some(&[0f32; 2]), &mut [0f32; 4], 2, 2, 2.0), "rmsnorm: x has 5 elements, 4 are wanted");
    refused(nn::rmsnorm(&[0f32; 4], Some(&[0f32; 3]), &mut [0f32; 4], 2, 2, 2.0), "rmsnorm: weight has 3 elements, 2 are wanted");
    refused(nn::rmsnorm(&[0f32; 4], Some(&[0f32; 2]), &mut [0f32; 5], 2, 2, 2.0), "rmsnorm: y has 5 elements, 4 are wanted");
    refused(nn::topk(&[0f32; 5], Some(&mut [0f32; 4]), &mut [0i32; 4], 2, 2, 2), "topk: x has 5 elements, 4 are wanted");
    refused(nn::topk(&[0f32; 4], Some(&mut [0f32; 5]), &mut [0i32; 4], 2, 2, 2), "topk: values has 5 elements, 4 are wanted");
    refused(nn::topk(&[0f32; 4], Some(&mut [0f32; 4]), &mut [0i32; 5], 2, 2, 2), "topk: indices has 5 elements, 4 are wanted");
    refused(nn::route(&[0f32; 5], &mut [0f32; 4], &mut [0i32; 4], &mut [0f32; 4], 2, 2, 2, 2, 2), "route: logits has 5 elements, 4 are wanted");
    refused(nn::route(&[0f32; 4], &mut [0f32; 5], &mut [0i32; 4], &mut [0f32; 4], 2, 2, 2, 2, 2), "route: probs has 5 elements, 4 are wanted");
    refused(nn::route(&[0f32; 4], &mut [0f32; 4], &mut [0i32; 5], &mut [0f32; 4], 2, 2, 2, 2, 2), "route: ids has 5 elements, 4 are wanted");
    refused(nn::route(&[0f32; 4], &mut [0f32; 4], &mut [0i32; 4], &mut [0f32; 5], 2, 2, 2, 2, 2), "route: weights has 5 elements, 4 are wanted");
    refused(nn::combine(&[0f32; 9], &[0f32; 4], &mut [0f32; 4], 2, 2, 2), "combine: x has 9 elements, 8 are wanted");
    refused(nn::combine(&[0f32; 8], &[0f32; 5], &mut [0f32; 4], 2, 2, 2), "combine: weights has 5 elements, 4 are wanted");
    refused(nn::combine(&[0f32; 8], &[0f32; 4], &mut [0f32; 5], 2, 2, 2), "combine: y has 5 elements, 4 are wanted");
}
