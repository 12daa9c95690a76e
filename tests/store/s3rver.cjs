// SPDX-License-Identifier: Apache-2.0
// s3rver.cjs FOLDER DIRECTORY BUCKET...: starts the server of FOLDER/node_modules on a port that is free, prints it, and
// ends with its standard input.
const { createRequire } = require('node:module')

const [folder, directory, ...buckets] = process.argv.slice(2)
const S3rver = createRequire(folder + '/')('s3rver')

const server = new S3rver({
  address: '127.0.0.1',
  port: 0,
  silent: true,
  serviceEndpoint: 'localhost', // BUCKET.s3.localhost is BUCKET, too
  directory,
  configureBuckets: buckets.map((name) => ({ name })),
})
server.run().then(({ port }) => console.log(port))
process.stdin.resume()
process.stdin.on('end', () => process.exit(0))
