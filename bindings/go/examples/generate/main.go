// A reply, printed as it is generated.   go run ./examples/generate MODEL.gguf [TEXT]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"reprise"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("generate MODEL.gguf [TEXT]")
	}
	text := "Hello"
	if len(os.Args) > 2 {
		text = os.Args[2]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt) // Ctrl-C ends the reply
	defer stop()
	if err := generate(ctx, os.Args[1], text); err != nil {
		log.Fatal(err)
	}
}

func generate(ctx context.Context, path, text string) error {
	model, err := reprise.OpenModel(path, nil)
	if err != nil {
		return err
	}
	defer model.Close()
	session, err := model.NewSession(reprise.SessionOptions{Context: 256})
	if err != nil {
		return err
	}
	defer session.Close()
	sampler, err := model.NewSampler(reprise.SamplerParams{Temperature: 0.8})
	if err != nil {
		return err
	}
	defer sampler.Close()
	prompt, err := model.Tokenize(text, reprise.AddSpecial)
	if err != nil {
		return err
	}
	reply, err := session.Generate(ctx, sampler, prompt, reprise.GenerateOptions{MaxTokens: 32}, func(piece string) bool {
		fmt.Print(piece)
		return true
	})
	fmt.Printf("\n[%d tokens, stopped by %v]\n", len(reply.Tokens), reply.Reason)
	return err
}
